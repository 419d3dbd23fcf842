"""What moves and how: collectives, schedules, programs."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _arrays, _options
from . import _structs as c
from ._call import Call, Cancel, ProgressFunction
from ._library import LIB, Handle, as_json, check, decode, encode, make, written
from .errors import CheckError, FileError, InputError, UsageError
from .pictures import Path
from .topologies import Topology

_LEVELS = ["algorithm", "stage", "task"]


class Demand:
    """A demand file (docs/formats.md): in place of a collective's name."""

    def __init__(self, path: Path) -> None:
        self._handle = Handle(make(LIB.ccl_demand_read, encode(path)), LIB.ccl_collective_destroy)
        head = self._handle.read(c.Collective)
        self.name = decode(head.name)
        self.nranks: int = head.nranks
        self.size_bytes: float = head.natural_bytes
        """Size at which chunks have the bytes that the file gives."""


What = Union[str, Demand]


def collective_of(what: What, topo: Topology, root: int) -> Handle:
    """The collective on all GPUs of a cluster."""
    if isinstance(what, Demand):
        if what.nranks != topo.nranks:
            raise InputError(
                f"a demand for {what.nranks} ranks, but {topo.name} has {topo.nranks} GPUs", what.name
            )
        return what._handle
    kind, error = ctypes.c_int(), c.Error()
    check(LIB.ccl_collective_kind_parse(encode(what), ctypes.byref(kind), ctypes.byref(error)), error)
    if kind.value == c.CONSTANTS["CCL_CUSTOM"]:
        raise UsageError("a custom collective is given by a Demand")
    if not 0 <= root < topo.nranks:
        raise UsageError(f"root {root}, but the cluster has the ranks 0 to {topo.nranks - 1}")
    if root and not LIB.ccl_collective_kind_is_rooted(kind.value):
        raise UsageError(f"root is of broadcast, reduce, gather and scatter; {what} has no root")
    return Handle(
        make(LIB.ccl_collective_create, kind.value, topo.nranks, 1, root), LIB.ccl_collective_destroy
    )


@dataclass(frozen=True)
class Fault:
    """The first fault of a program or schedule; what does not apply is None. docs/formats.md lists the kinds."""

    kind: str
    text: str
    rank: Optional[int] = None
    thread_block: Optional[int] = None
    step: Optional[int] = None
    chunk: Optional[int] = None
    slots: Optional[int] = None
    """Of a deadlock: FIFO depth of the check; None: no limit."""
    least_slots: Optional[int] = None
    """Of a deadlock: the least depth with which it finishes; None: it deadlocks at any."""


@dataclass(frozen=True)
class Verdict:
    """Whether a program or schedule is right; true where it is."""

    valid: bool
    form: str
    """"program" or "schedule"."""
    collective: str
    nranks: int
    origin: Optional[str]
    fault: Optional[Fault]
    warnings: List[str]

    def __bool__(self) -> bool:
        return self.valid


def verdict_of(of: "Union[Program, Schedule]", form: str, verdict: Any) -> Verdict:
    about = c.ReportVerdict(
        input=encode(of.name),
        form=form.encode(),
        collective=encode(of.collective),
        nranks=of.nranks,
        verdict=ctypes.addressof(verdict),
        origin=encode(of.origin),
    )
    result = as_json(LIB.ccl_report_verdict, ctypes.byref(about))
    fault = result["fault"] and Fault(**{key: result["fault"].get(key) for key in Fault.__dataclass_fields__})
    names = ("valid", "form", "collective", "nranks", "origin", "warnings")
    return Verdict(fault=fault, **{name: result[name] for name in names})


class Schedule:
    """What moves where, in what order. synthesize() makes one, read() reads one.

    Attributes:
        name, origin: of the synthesizer or file, and how it came about.
        collective, nranks, nsteps, nchannels, ntransfers: what it does, and how large it is.
        limited: a limit was reached; it is the best that was found by then.
    """

    def __init__(self, handle: Handle, synthesizer: Optional[str]) -> None:
        self._handle = handle
        self._synthesizer = synthesizer
        head = handle.read(c.Schedule)
        self.name = decode(head.name)
        self.origin = decode(head.origin)
        self.collective = decode(head.coll.contents.name)
        self.nranks: int = head.coll.contents.nranks
        self.nsteps: int = head.nsteps
        self.nchannels: int = head.nchannels
        self.ntransfers: int = head.ntransfers
        self.limited: bool = head.limited

    @property
    def transfers(self) -> Dict[str, Any]:
        """Columns src, dst, chunk, step, channel, reduce (1: added to what is there), phase."""
        head = self._handle.read(c.Schedule)
        return _arrays.columns(
            head.transfers, head.ntransfers, c.Transfer, [name for name, _ in c.Transfer._fields_]
        )

    def verify(self) -> Verdict:
        """Execute it symbolically: is it right?"""
        call, verdict = Call(), c.Verdict()
        check(call.run(LIB.ccl_schedule_verify, self._handle.address, ctypes.byref(verdict)), call.error)
        return verdict_of(self, "schedule", verdict)

    def lower(self, topo: Topology, size: Any, verify: bool = True, threads: int = 0, **options: Any) -> "Program":
        """The schedule as a program of thread blocks, proven.

        Args:
            size: of the run that lowering looks at: bytes or text such as "64M".
            verify: false: it is not proven here (simulate() will).
            options: of lowering and of the run, with _ for -: order, allocate, granularity, stages, executor, proto,
                batches ... (`ccllab lower --help`). What is not given is as the synthesizer has it.

        Raises:
            UnsupportedError: it cannot be lowered this way.
            CheckError: the program is wrong.
        """
        if self.nranks != topo.nranks:
            raise InputError(f"a schedule for {self.nranks} ranks, but {topo.name} has {topo.nranks} GPUs", self.name)
        lower, sim = c.fresh(c.LowerOptions), c.fresh(c.SimOptions)
        given, keep = _options.apply(
            options, [(_options.lower_tables(), lower), (_options.sim_tables(), sim)]
        )
        way, asked = way_of(self._synthesizer, given, lower, sim)
        lower.asked = asked != 0
        lower.order, lower.allocation, lower.granularity = way.order, way.allocation, way.granularity
        lower.topo = topo._address
        lower.size_bytes = _options.size_bytes(size)
        lower.batches = sim.batches
        call = Call(threads=threads)
        status, made = call.object(
            LIB.ccl_program_destroy, LIB.ccl_lower, self._handle.address, ctypes.byref(lower)
        )
        check(status, call.error)
        assert made is not None
        program = Program(made, way)
        del keep
        if verify:
            program._prove(_LEVELS[way.granularity])
        return program

    def to_json(self) -> str:
        """As read() reads it."""
        return written(LIB.ccl_schedule_write_json, self._handle.address).decode()

    def save(self, path: Path) -> None:
        """Write to_json() to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json())

    def __repr__(self) -> str:
        return f"<Schedule {self.name}: {self.collective} on {self.nranks} ranks, {self.ntransfers} transfers>"


class Program:
    """Thread blocks and what they do, as in MSCCL XML. Schedule.lower() makes one, read() reads one.

    Attributes:
        name, origin, proto: as its file has them.
        collective, nranks, nchannels, nthread_blocks, nsteps: what it does, and how large it is.
        granularity: level at which it runs where nothing else is said: "algorithm", "stage", "task".
    """

    def __init__(self, handle: Handle, way: Any = None) -> None:
        self._handle = handle
        self._way = way
        self._proven: Dict[str, Any] = {}
        head = handle.read(c.Program)
        self.name = decode(head.name)
        self.origin = decode(head.origin)
        self.proto = decode(head.proto)
        self.collective = decode(head.coll.contents.name)
        self.nranks: int = head.nranks
        self.nchannels: int = head.nchannels
        self.nthread_blocks: int = head.ntbs
        self.nsteps: int = head.nsteps
        self.granularity = _LEVELS[way.granularity] if way else "algorithm"

    @property
    def thread_blocks(self) -> Dict[str, Any]:
        """Columns rank, id, send_peer, recv_peer (4294967295: none), channel, first_step, nsteps."""
        head = self._handle.read(c.Program)
        return _arrays.columns(head.tbs, head.ntbs, c.ThreadBlock, [name for name, _ in c.ThreadBlock._fields_])

    @property
    def steps(self) -> Dict[str, Any]:
        """Columns type ("s", "r", "rcs", ...), src_buf, src_off, dst_buf, dst_off, count, stage, dep_tb, dep_step."""
        head = self._handle.read(c.Program)
        names = ["type", "src_buf", "src_off", "dst_buf", "dst_off", "count", "stage", "dep_tb", "dep_step"]
        columns = _arrays.columns(head.steps, head.nsteps, c.Step, names)
        columns["type"] = [decode(LIB.ccl_primitive_name(int(kind))) for kind in columns["type"]]
        for name in ("src_buf", "dst_buf"):
            columns[name] = ["ios"[place] for place in columns[name]]
        return columns

    def _verdict(self, skip_deadlock: bool, options: Any) -> Any:
        call, verdict = Call(), c.Verdict()
        options.skip_deadlock = skip_deadlock
        status = call.run(
            LIB.ccl_program_verify, self._handle.address, ctypes.byref(options), ctypes.byref(verdict)
        )
        check(status, call.error)
        return verdict

    def verify(
        self, granularity: Optional[str] = None, executor: Optional[str] = None, slots: int = 0, batches: int = 0
    ) -> Verdict:
        """Execute it symbolically: is it right, does it finish?

        Args:
            granularity: level of execution; None: its own.
            executor: "msccl", "rccl" or "msccl-old": its limits, too.
            slots, batches: FIFO depth and micro-batches of the check for deadlocks; 0: by protocol, 4.
        """
        lower, sim, verify = c.fresh(c.LowerOptions), c.fresh(c.SimOptions), c.fresh(c.VerifyOptions)
        values = {"granularity": granularity or self.granularity, "executor": executor}
        _options.apply(values, [(_options.lower_tables(), lower), (_options.sim_tables(), sim)])
        verify.granularity, verify.executor, verify.slots, verify.batches = (
            sim.granularity,
            lower.executor,
            slots,
            batches,
        )
        return verdict_of(self, "program", self._verdict(False, verify))

    def _prove(self, granularity: str) -> Any:
        """Its verdict at a level, once; CheckError where it is wrong. Deadlock is the simulator's to find."""
        if granularity not in self._proven:
            options = c.fresh(c.VerifyOptions)
            options.granularity = _LEVELS.index(granularity)
            self._proven[granularity] = self._verdict(True, options)
        verdict = self._proven[granularity]
        if not verdict.valid:
            raise CheckError(f"{decode(verdict.fault.kind)}: {decode(verdict.fault.text)}", self.name, exit_code=1)
        return verdict

    def to_xml(self) -> str:
        """As MSCCL XML, which read() reads."""
        return written(LIB.ccl_program_write_xml, self._handle.address).decode()

    def to_mscclpp(self, topo: Optional[Topology] = None) -> str:
        """As an execution plan of MSCCL++ (JSON). topo: for GPUs in several servers."""
        address = topo._address if topo else None
        return written(LIB.ccl_program_write_mscclpp, self._handle.address, address).decode()

    def save(self, path: Path) -> None:
        """Write to_xml() to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_xml())

    def __repr__(self) -> str:
        return (
            f"<Program {self.name}: {self.collective} on {self.nranks} ranks, {self.proto}, "
            f"{self.nthread_blocks} thread blocks>"
        )


def way_of(synthesizer: Optional[str], given: Any, lower: Any, sim: Any) -> Tuple[Any, int]:
    """The way of a synthesizer's schedules, with what was given in its place; and what that was, as bits."""
    ops = LIB.ccl_synth_find(encode(synthesizer)) if synthesizer else None
    preset = c.SynthOps.from_address(ops).way if ops else None
    way = c.Way.from_buffer_copy(preset.contents) if preset else c.Way()
    bits = 0
    if "order" in given:
        way.order, bits = lower.order, bits | c.CONSTANTS["CCL_WAY_ORDER"]
    if "allocate" in given:
        way.allocation, bits = lower.allocation, bits | c.CONSTANTS["CCL_WAY_ALLOCATION"]
    if "granularity" in given:
        way.granularity, bits = sim.granularity, bits | c.CONSTANTS["CCL_WAY_GRANULARITY"]
    return way, bits


def read(path: Path) -> Union[Program, Schedule]:
    """A program (MSCCL XML, MSCCL++ plan) or a schedule (our JSON, TE-CCL's, SCCL's, ResCCLang), by its content.

    Raises:
        InputError: with file, line and column.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise FileError(f"cannot read it: {error.strerror}", os.fspath(path), exit_code=4) from error
    return _read(os.fspath(path), data)


def read_text(text: str, name: str = "<text>") -> Union[Program, Schedule]:
    """As read(), of a file's text; name is for messages."""
    return _read(name, text.encode())


def _read(name: str, data: bytes) -> Union[Program, Schedule]:
    start = data[3:] if data.startswith(b"\xef\xbb\xbf") else data
    first = start.lstrip(b" \t\r\n")[:1]
    about = encode(name), data, len(data)
    if not first:
        raise InputError("nothing in it; a program (XML) or a schedule (JSON, ResCCLang) is wanted", name, 1, 1)
    result: Union[Program, Schedule]
    if first == b"<" or (first == b"{" and LIB.ccl_program_is_mscclpp(data, len(data))):
        function = LIB.ccl_program_read_xml if first == b"<" else LIB.ccl_program_read_mscclpp
        kind, handle = c.Program, Handle(make(function, *about), LIB.ccl_program_destroy)
    else:
        function = LIB.ccl_schedule_read_json if first in (b"{", b"[") else LIB.ccl_schedule_read_resccl
        kind, handle = c.Schedule, Handle(make(function, *about), LIB.ccl_schedule_destroy)
    if not handle.read(kind).origin:
        LIB.ccl_origin_file(handle.address + kind.origin.offset, encode(name))
    result = Program(handle) if kind is c.Program else Schedule(handle, None)
    return result


def synthesizers() -> List[Dict[str, str]]:
    """All synthesizers: name, summary, source."""
    array = ctypes.cast(LIB.ccl_synth_all(), ctypes.POINTER(ctypes.c_void_p))
    found = []
    while array[len(found)]:
        ops = c.SynthOps.from_address(array[len(found)])
        found.append({name: decode(getattr(ops, name)) for name in ("name", "summary", "source")})
    return found


def load_plugin(path: Path) -> None:
    """Add the synthesizer of a shared object (docs/howto/add-a-synthesizer.md) to those of this process."""
    error = c.Error()
    check(LIB.ccl_plugin_load(encode(path), ctypes.byref(error)), error)


def known_synthesizer(name: str, more: Tuple[str, ...] = ()) -> None:
    if name not in more and not LIB.ccl_synth_find(encode(name)):
        names = [entry["name"] for entry in synthesizers()] + list(more)
        raise UsageError(f"unknown synthesizer {name!r}{_options.nearest(name, names)}")


def synthesize(
    topo: Topology,
    collective: What,
    synthesizer: str,
    size: Any = None,
    *,
    root: int = 0,
    seed: int = 1,
    threads: int = 0,
    progress: Optional[ProgressFunction] = None,
    cancel: Optional[Cancel] = None,
    **options: Any,
) -> Schedule:
    """A schedule by one synthesizer, verified.

    Args:
        collective: "allreduce", "allgather", ... or a Demand.
        synthesizer: such as "ring"; synthesizers() lists them.
        size: that it is for, bytes or text such as "64M"; None: any, of a demand its own.
        root: of broadcast, reduce, gather and scatter.
        seed: of what is random. Equal arguments give equal schedules, on any number of threads.
        threads: 0: one per core.
        progress: called with a Progress now and then, in another thread; what it raises ends the call.
        cancel: a Cancel that ends it. Ctrl-C ends it, too.
        options: of the synthesizer, with _ for -: channels, chunks, time_limit (seconds or text), ...
            (`ccllab synth --help`).

    Raises:
        UnsupportedError: the synthesizer cannot do this here.
        InfeasibleError, LimitError: it found none.
        Cancelled: by `cancel`.
    """
    known_synthesizer(synthesizer)
    want = collective_of(collective, topo, root)
    synth = c.fresh(c.SynthOptions)
    _, keep = _options.apply(options, [(_options.synth_tables(), synth)])
    if size is not None:
        synth.size_bytes = _options.size_bytes(size)
    elif isinstance(collective, Demand):
        synth.size_bytes = collective.size_bytes
    call = Call(progress, cancel, seed, threads)
    status, made = call.object(
        LIB.ccl_schedule_destroy,
        LIB.ccl_synthesize,
        encode(synthesizer),
        topo._address,
        None,
        want.address,
        ctypes.byref(synth),
    )
    del keep
    if made is None or status != c.STATUSES.index("CCL_TIMEOUT"):
        check(status, call.error)
    assert made is not None
    return Schedule(made, synthesizer)
