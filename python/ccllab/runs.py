"""Simulated runs, and times that none can beat."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Union

from . import _arrays, _options
from . import _structs as c
from ._call import QUIET, Call, Cancel
from ._library import JSON_STYLE, LIB, Handle, as_json, check, encode, written
from .errors import InputError, NoMemoryError, UnsupportedError
from .pictures import Picture, page
from .programs import _LEVELS, Program, Schedule, What, collective_of
from .topologies import Topology

_ROWS = [name.replace("CCL_DRAW_ROWS_", "").lower() for name in c.DRAW_ROWS]
_DEADLOCK = c.STATUSES.index("CCL_DEADLOCK")
_TIMELINE_EVENTS = 4000000
_SHORT_STEPS = 200000
"""Programs of at most this many steps are simulated in the caller's thread: Ctrl-C then comes a moment later."""


_SIM = c.fresh(c.SimOptions)
_SIM.cause = True


@dataclass(eq=False)
class Run:
    """One simulated run; keys as in docs/results.md#simulate. Notebooks show it with its timeline."""

    topology: str
    program: str
    collective: str
    nranks: int
    granularity: str
    size_bytes: float
    time_s: float
    algbw_GBps: float
    busbw_GBps: float
    batches: int
    chunk_bytes: float
    transfers: int
    flows: int
    events: int
    rate_changes: int
    skipped_batches: int
    _of: Any = field(repr=False)

    @property
    def links(self) -> Dict[str, Any]:
        """Columns from, to, kind, bytes, utilization (0 to 1); a row per directed link of the cluster."""
        result = self._of.result.read(c.SimResult)
        links = self._of.topo.links
        use = _arrays.columns(result.links, result.nlinks, c.LinkUse, ["bytes", "utilization"])
        return {"from": links["from"], "to": links["to"], "kind": links["kind"], **use}

    @property
    def thread_blocks(self) -> Dict[str, Any]:
        """Columns rank, id, start_s, done_s, busy_s, wait_data_s, wait_peer_s, wait_slot_s; a row per thread block."""
        result = self._of.result.read(c.SimResult)
        program = self._of.program._handle.read(c.Program)
        where = _arrays.columns(program.tbs, program.ntbs, c.ThreadBlock, ["rank", "id"])
        use = _arrays.columns(result.tbs, result.ntbs, c.TbUse, [name for name, _ in c.TbUse._fields_])
        return {**where, **use}

    def to_dict(self) -> Dict[str, Any]:
        """All of it, with the bound: what `ccllab simulate --json` writes."""
        result: Dict[str, Any] = json.loads(self._of.json())
        return result

    def timeline(
        self, rows: str = "auto", rank: Optional[int] = None, by_chunk: bool = False, title: Optional[str] = None
    ) -> Picture:
        """What every thread block did over time; the run is made again for it.

        Args:
            rows: "block", "gpu", "server", "link", "phase"; "auto": blocks where few differ.
            rank: thread blocks of this GPU alone.
            by_chunk: coloured by chunk in place of by state.

        Raises:
            UnsupportedError: it has more events than a picture takes.
        """
        options = c.fresh(c.DrawTimelineOptions)
        if rows not in _ROWS:
            raise InputError(f"rows are {', '.join(_ROWS)}, not {rows!r}")
        options.rows, options.by_chunk = _ROWS.index(rows), by_chunk
        options.rank = c.NONE if rank is None else rank
        options.title = encode(title) if title else None
        trace = LIB.ccl_trace_create(_TIMELINE_EVENTS)
        if not trace:
            raise NoMemoryError("out of memory", exit_code=4)
        kept = Handle(trace, LIB.ccl_trace_destroy)
        LIB.ccl_trace_keep(kept.address, rows != "link", rows == "link")
        traced = self._of.again(kept.address)
        about = self._of.topo._address, self._of.program._handle.address, traced.address, kept.address
        return Picture(LIB.ccl_draw_timeline, *about, ctypes.byref(options))

    def draw(self) -> Picture:
        """The cluster, its links coloured by how busy they were."""
        options = c.fresh(c.DrawTopologyOptions)
        result = self._of.result.read(c.SimResult)
        about = f"{self.program}: {self.time_s * 1e6:.4g} us, busbw {self.busbw_GBps:.4g} GB/s"
        options.links = ctypes.cast(result.links, ctypes.c_void_p)
        options.run = encode(about)
        return Picture(LIB.ccl_draw_topology, self._of.topo._address, ctypes.byref(options))

    def page(self) -> str:
        """The HTML page that `ccllab report` makes of it."""
        return page(self._of.json(), self._of.topo._address)

    def _repr_html_(self) -> str:
        from html import escape

        what = f"{self.collective} by {self.program} on {self.topology}, {self.size_bytes:.0f} bytes"
        times = f"{self.time_s * 1e6:.2f} us, algbw {self.algbw_GBps:.2f} GB/s, busbw {self.busbw_GBps:.2f} GB/s"
        try:
            picture = self.timeline().html()
        except UnsupportedError as error:
            picture = f"<p>{escape(error.text)}</p>"
        return f"<div><p>{escape(what)}: <b>{times}</b></p>{picture}</div>"


class _Made:
    """What a run is of."""

    __slots__ = ("topo", "program", "options", "verdict", "result")

    def __init__(self, topo: Topology, program: Program, options: Any, verdict: Any, result: Optional[Handle]) -> None:
        self.topo = topo
        self.program = program
        self.options = options
        self.verdict = verdict
        self.result = result

    def json(self) -> bytes:
        program = self.program._handle.read(c.Program)
        options = c.fresh(c.BoundOptions)
        options.size_bytes, options.proto = self.options.size_bytes, program.proto
        call, bound = Call(), c.Bound()
        coll = ctypes.addressof(program.coll.contents)
        about = self.topo._address, coll, ctypes.byref(options), ctypes.byref(bound)
        check(call.run(LIB.ccl_bound, *about), call.error)
        run = c.ReportRun(
            input=encode(self.program.name),
            topo=self.topo._address,
            program=self.program._handle.address,
            verdict=ctypes.addressof(self.verdict) if self.verdict is not None else None,
            options=ctypes.addressof(self.options),
            result=self.result.address if self.result else None,
            bound=ctypes.addressof(bound),
        )
        if self.program._way is not None:
            run.way = ctypes.addressof(self.program._way)
        try:
            return written(LIB.ccl_report_simulation, ctypes.byref(run), ctypes.byref(JSON_STYLE))
        finally:
            LIB.ccl_bound_fini(ctypes.byref(bound))

    def again(self, trace: int) -> Handle:
        options = c.SimOptions.from_buffer_copy(self.options)
        options.trace = trace
        call = Call()
        about = self.topo._address, None, self.program._handle.address, ctypes.byref(options)
        status, result = call.object(LIB.ccl_sim_result_destroy, LIB.ccl_sim_program, *about)
        check(status, call.error)
        assert result is not None
        return result


def simulate(
    topo: Topology,
    what: Union[Program, Schedule],
    size: Any,
    *,
    verify: bool = True,
    cancel: Optional[Cancel] = None,
    **options: Any,
) -> Run:
    """Time a program on a cluster by the model of docs/model.md.

    Args:
        what: a program; or a schedule, which is lowered with its defaults first.
        size: of the largest buffer of a GPU, bytes or text such as "64M", as in nccl-tests.
        verify: false: a program is simulated that was not proven. A program is proven once for a level.
        cancel: a Cancel that ends it.
        options: of the run, with _ for -: batches, granularity, sharing, no_skip, no_fold.

    Raises:
        CheckError: it is wrong.
        DeadlockError: it cannot finish; its `deadlock` says who waits for whom.
        Cancelled: by `cancel`.
    """
    program = what.lower(topo, size) if isinstance(what, Schedule) else what
    if program.nranks != topo.nranks:
        raise InputError(f"a program for {program.nranks} ranks, but {topo.name} has {topo.nranks} GPUs", program.name)
    sim = c.SimOptions.from_buffer_copy(_SIM)
    sim.size_bytes = _options.size_bytes(size)
    sim.granularity = _LEVELS.index(program.granularity)
    if options:
        _options.apply(options, [(_options.sim_tables(), sim)])
    level = _LEVELS[sim.granularity]
    verdict = program._prove(level) if verify else None
    about = topo._address, None, program._handle.address, ctypes.byref(sim)
    if cancel is None and program.nsteps * (sim.batches if sim.no_skip else 1) <= _SHORT_STEPS:
        out, error = ctypes.c_void_p(), c.Error()
        status = LIB.ccl_sim_program(QUIET, *about, ctypes.byref(out), ctypes.byref(error))
        result = Handle(out.value, LIB.ccl_sim_result_destroy) if out.value else None
    else:
        call = Call(cancel=cancel)
        status, result = call.object(LIB.ccl_sim_result_destroy, LIB.ccl_sim_program, *about)
        error = call.error
    made = _Made(topo, program, sim, verdict, result)
    if status:
        _refuse(status, error, made)
    assert result is not None
    r = result.read(c.SimResult)
    return Run(
        topo.name,
        program.name,
        program.collective,
        program.nranks,
        level,
        r.size_bytes,
        r.time_s,
        r.algbw_GBps,
        r.busbw_GBps,
        r.batches,
        r.chunk_bytes,
        r.transfers,
        r.flows,
        r.events,
        r.rate_changes,
        r.skipped_batches,
        made,
    )


def _refuse(status: int, found: Any, made: _Made) -> None:
    try:
        check(status, found)
    except Exception as error:
        if status == _DEADLOCK and made.result:
            error.deadlock = json.loads(made.json())["deadlock"]  # type: ignore[attr-defined]
        raise


@dataclass(frozen=True)
class Bound:
    """Times that no schedule can beat; keys as in docs/results.md#bound."""

    topology: str
    profile: Optional[str]
    nranks: int
    collective: str
    size_bytes: Optional[float]
    time_s: Optional[float]
    """The least of the protocols' greatest bound; None: no size was named."""
    by: Optional[str]
    """What gives time_s: "latency", "bandwidth" or "over time"."""
    latency_s: float
    bandwidth_s: Optional[float]
    over_time_s: Optional[float]
    """Of the best cut over time."""
    algbw_GBps: Optional[float]
    busbw_GBps: Optional[float]
    proof: str
    """What proves the bandwidth."""
    tight: bool
    """Schedules can meet the bandwidth."""
    parts: List[List[str]]
    """Devices of each part of the cut or partition."""
    links: List[Dict[str, Any]]
    """That are saturated: from, to, kind, bandwidth_GBps."""
    cut_over_time: Optional[Dict[str, Any]]
    """What proves over_time_s: sources, destinations, messages, windows."""
    curve: List[Dict[str, Any]]
    """All of them over the size, 1 KiB to 1 GiB."""


def bound(topo: Topology, collective: What, size: Any = None, *, root: int = 0, proto: Optional[str] = None) -> Bound:
    """How fast a collective can be at all on a cluster (docs/bounds.md).

    Args:
        size: bytes or text such as "1G"; None: bandwidth and latency alone.
        proto: constants of this protocol; None: the protocol with the least bound counts.
    """
    want = collective_of(collective, topo, root)
    options = c.fresh(c.BoundOptions)
    natural = want.read(c.Collective).natural_bytes
    options.size_bytes = natural if size is None else _options.size_bytes(size)
    if proto is not None:
        lower = c.fresh(c.LowerOptions)
        _options.apply({"proto": proto}, [(_options.lower_tables(), lower)])
        options.proto = lower.proto
    call, found = Call(), c.Bound()
    status = call.run(LIB.ccl_bound, topo._address, want.address, ctypes.byref(options), ctypes.byref(found))
    check(status, call.error)
    try:
        collectives = (ctypes.c_void_p * 1)(want.address)
        about = c.ReportBounds(
            topo=topo._address,
            nbounds=1,
            collectives=ctypes.addressof(collectives),
            bounds=ctypes.addressof(found),
        )
        result = as_json(LIB.ccl_report_bounds, ctypes.byref(about))
    finally:
        LIB.ccl_bound_fini(ctypes.byref(found))
    of = {**result, **result["bounds"][0]}
    return Bound(**{name: of[name] for name in Bound.__dataclass_fields__})
