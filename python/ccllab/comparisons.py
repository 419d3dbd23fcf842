"""Schedules side by side."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from typing import Any, Dict, Iterable, List, Mapping, Optional, Union

from . import _arrays, _options
from . import _structs as c
from ._call import Call, Cancel, ProgressFunction
from ._library import JSON_STYLE, LIB, Handle, Json, check, decode, encode, make, written
from .errors import CcllabError, Cancelled, InfeasibleError, InputError, UsageError
from .pictures import Picture, page
from .programs import Program, Schedule, What, collective_of, known_synthesizer, way_of
from .topologies import Topology


class Comparison(Sequence):  # type: ignore[type-arg]
    """Times of schedules of one collective over sizes: a table, whose rows are dicts.

    `pandas.DataFrame(comparison.rows)` takes it. Keys of a row are those of docs/results.md#compare, "results", with
    topology, collective, size_bytes, bound_s and winner (true: nobody is faster). Notebooks show it as curves.

    Attributes:
        topology, profile, nranks, collective: what was compared.
        contenders: dicts, those that do not take part included (why_not).
        interrupted: it was cancelled; what was not finished has the status "interrupted".
        warnings: of the simulator on this cluster.
    """

    def __init__(self, text: bytes, topo: Topology, interrupted: bool, warnings: List[str]) -> None:
        self._text = text
        self._topo = topo
        self._result: Dict[str, Any] = json.loads(text)
        of = self._result["comparisons"][0]
        self.topology: str = self._result["topology"]
        self.profile: Optional[str] = self._result["profile"]
        self.nranks: int = self._result["nranks"]
        self.collective: str = of["collective"]
        self.contenders: List[Dict[str, Any]] = of["contenders"]
        self.interrupted = interrupted
        self.warnings = warnings
        self._sizes: List[Dict[str, Any]] = of["sizes"]
        self.rows: List[Dict[str, Any]] = [
            {
                "topology": self.topology,
                "collective": self.collective,
                "size_bytes": size["size_bytes"],
                "bound_s": size["bound_s"],
                "winner": result["name"] == size["winner"],
                **result,
            }
            for size in self._sizes
            for result in size["results"]
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    @property
    def columns(self) -> Dict[str, Any]:
        """The same by columns: numbers as numpy arrays where numpy is (no value: nan), else lists."""
        names = list(self.rows[0]) if self.rows else []
        table = {name: [row[name] for row in self.rows] for name in names}
        np = _arrays.numpy()
        if np is None:
            return table
        for name, column in table.items():
            kinds = {type(value) for value in column}
            if kinds == {bool}:
                table[name] = np.array(column)
            elif kinds & {int, float} and kinds <= {int, float, type(None)}:
                table[name] = np.array([np.nan if value is None else value for value in column], dtype=float)
        return table

    @property
    def winners(self) -> List[Dict[str, Any]]:
        """The row of the winner at each size that has one."""
        return [row for row in self.rows if row["winner"]]

    def to_dict(self) -> Dict[str, Any]:
        """What `ccllab compare --json` writes."""
        result: Dict[str, Any] = json.loads(self._text)
        return result

    def draw(self) -> Picture:
        """busbw and time over size, a curve for each contender."""
        doc = Json("comparison", self._text)
        return Picture(LIB.ccl_report_draw_busbw, ctypes.byref(doc.doc), 1)

    def page(self) -> str:
        """The HTML page that `ccllab report` makes of it."""
        return page(self._text, self._topo._address)

    def __repr__(self) -> str:
        return f"<Comparison of {self.collective} on {self.topology}: {len(self.rows)} rows>"

    def _repr_html_(self) -> str:
        from html import escape

        def cell(value: Any, form: str, scale: float = 1.0) -> str:
            return f"<td>{'' if value is None else format(value * scale, form)}</td>"

        lines = "".join(
            f"<tr><td>{row['size_bytes']:.0f}</td><td>{escape(row['name'])}</td>{cell(row['time_s'], '.2f', 1e6)}"
            f"{cell(row['busbw_GBps'], '.2f')}{cell(row['gap'], '.2f')}{cell(row['speedup_over_nccl'], '.2f')}</tr>"
            for row in self.winners
        )
        heads = ["size (B)", "winner", "time (us)", "busbw (GB/s)", "time / bound", "nccl's time / time"]
        head = "".join(f"<th>{name}</th>" for name in heads)
        return f"<div>{self.draw().html()}<table><tr>{head}</tr>{lines}</table></div>"


Programs = Union[Mapping[str, Union[Program, Schedule]], Iterable[Union[Program, Schedule]]]


def _names(topo: Topology, synthesizers: Optional[Union[str, Sequence[str]]]) -> List[str]:  # type: ignore[type-arg]
    """Who is compared: those named, or NCCL and all synthesizers that take part on the cluster."""
    if synthesizers is not None:
        names = synthesizers.split(",") if isinstance(synthesizers, str) else list(synthesizers)
        for name in names:
            known_synthesizer(name, ("nccl", "rccl"))
        return list(dict.fromkeys("nccl" if name == "rccl" else name for name in names))
    names = ["nccl"]
    array = ctypes.cast(LIB.ccl_synth_all(), ctypes.POINTER(ctypes.c_void_p))
    i = 0
    while array[i]:
        if LIB.ccl_synth_takes_part(array[i], topo._address):
            names.append(decode(c.SynthOps.from_address(array[i]).name))
        i += 1
    return names


def _library_name(topo: Topology) -> bytes:
    """ "nccl" or "rccl", whichever runs there."""
    try:
        return ctypes.string_at(make(LIB.ccl_nccl_library, topo._address))
    except CcllabError:
        return b"nccl"  # the result says why not


def _contenders(
    topo: Topology, names: List[str], programs: Optional[Programs], verify: bool
) -> "tuple[Any, List[Any]]":
    found: List[Any] = []
    keep: List[Any] = []
    for name in names:
        library = name == "nccl"
        text = _library_name(topo) if library else encode(name)
        keep.append(text)
        found.append(c.Contender(name=text, library=library))
    items = programs.items() if isinstance(programs, Mapping) else [(p.name, p) for p in programs or ()]
    for title, item in items:
        if item.nranks != topo.nranks:
            raise InputError(f"for {item.nranks} ranks, but {topo.name} has {topo.nranks} GPUs", title)
        text = encode(title)
        keep += [text, item]
        contender = c.Contender(name=text)
        if isinstance(item, Program):
            if verify:
                item._prove(item.granularity)
            contender.program = item._handle.address
        else:
            contender.schedule = item._handle.address
            way = way_of(item._synthesizer, (), None, None)[0]
            keep.append(way)
            contender.way = ctypes.addressof(way)
        found.append(contender)
    if not found:
        raise UsageError("nothing to compare")
    return (c.Contender * len(found))(*found), keep


def compare(
    topo: Topology,
    collective: What,
    sizes: Any = "1K:1G",
    synthesizers: Optional[Union[str, Sequence[str]]] = None,  # type: ignore[type-arg]
    programs: Optional[Programs] = None,
    *,
    root: int = 0,
    seed: int = 1,
    threads: int = 0,
    verify: bool = True,
    notebook: Optional[str] = None,
    progress: Optional[ProgressFunction] = None,
    cancel: Optional[Cancel] = None,
    gap: float = 0,
    **options: Any,
) -> Comparison:
    """Which schedule is fastest at which size, beside what stock NCCL runs and the bound.

    Args:
        collective: "allreduce", "allgather", ... or a Demand.
        sizes: bytes, text ("64M", "64K:1G:4"), or several of them.
        synthesizers: names, "nccl" among them; None: NCCL and all that take part there. []: only `programs`.
        programs: yours: by name, or as they are called.
        root: of broadcast, reduce, gather and scatter.
        seed, threads: as for synthesize(); equal arguments give equal results on any number of threads.
        verify: false: programs of yours are not proven.
        notebook: a lab notebook (docs/tuning.md), a file or postgresql://...: times that are there are not taken again,
            new ones are kept, also when the call is cancelled.
        progress: called with a Progress now and then, in another thread; what it raises ends the call.
        cancel: a Cancel that ends it: Cancelled, whose `partial` is what was finished. Ctrl-C ends it, too.
        gap: 0.02: where a time is within 2 % of the bound, synthesizers that search and come later do not run; 0: all do.
        options: of synthesizers, lowering and runs, with _ for -; proto: one for all in place of the fastest.

    Raises:
        InfeasibleError: nobody could run at any size; `partial` says why.
    """
    want = collective_of(collective, topo, root)
    o = c.fresh(c.CompareOptions)
    tables = _options.synth_tables(), _options.lower_tables(), _options.sim_tables()
    given, keep = _options.apply(options, [(tables[0], o.synth), (tables[1], o.lower), (tables[2], o.sim)])
    o.way_bits = way_of(None, given, o.lower, o.sim)[1]
    o.lower.granularity, o.lower.batches = o.sim.granularity, o.sim.batches
    o.synth.plain = o.lower.executor != 0
    o.sim.cause = True
    contenders, more = _contenders(topo, _names(topo, synthesizers), programs, verify)
    values = _options.sizes_bytes(sizes)
    array = (ctypes.c_double * len(values))(*values)
    o.contenders, o.ncontenders = contenders, len(contenders)
    o.sizes_bytes, o.nsizes = array, len(values)
    o.gap = gap
    o.no_verify = True  # they were proven above, or are not to be
    o.protocols = "proto" not in given and notebook is None
    if topo._machine is not topo._handle:
        o.machine = topo._machine.address
    book = _notebook(notebook, o, topo)
    call = Call(progress, cancel, seed, threads)

    def made_of(handle: Handle) -> Comparison:
        return _result(handle, want, topo, o, seed)

    try:
        status, handle = call.object(
            LIB.ccl_comparison_destroy, LIB.ccl_compare, topo._address, want.address, ctypes.byref(o)
        )
        cancelled = status == c.STATUSES.index("CCL_INTERRUPTED")
        if handle is None or not cancelled:
            check(status, call.error)
    except BaseException as error:
        if hasattr(error, "_ccllab_made"):
            error.partial = made_of(error._ccllab_made)  # type: ignore[attr-defined]
            del error._ccllab_made
        raise
    finally:
        del book, keep, more
    assert handle is not None
    result = made_of(handle)
    if cancelled or not result.winners:
        error: CcllabError = (
            Cancelled("some of it is finished (partial)", exit_code=130)
            if cancelled
            else InfeasibleError("no contender could run at any size", exit_code=1)
        )
        error.partial = result
        raise error
    return result


def _notebook(path: Optional[str], options: Any, topo: Topology) -> Optional[Handle]:
    if path is None:
        return None
    untold = LIB.ccl_compare_untold(ctypes.byref(options))
    if untold:
        raise UsageError(f"notebook does not go with {decode(untold)}: its points do not record it")
    book = Handle(make(LIB.ccl_notebook_open, encode(path), True), LIB.ccl_notebook_close)
    options.notebook = book.address
    options.profile = topo._handle.read(c.Topology).profile or None
    return book


def _result(made: Handle, want: Handle, topo: Topology, o: Any, seed: int) -> Comparison:
    head = made.read(c.Comparison)
    collectives = (ctypes.c_void_p * 1)(want.address)
    comparisons = (ctypes.c_void_p * 1)(made.address)
    about = c.ReportComparison(
        topo=topo._address,
        ncomparisons=1,
        collectives=ctypes.addressof(collectives),
        comparisons=ctypes.addressof(comparisons),
        options=ctypes.addressof(o.sim),
        seed=seed,
    )
    text = written(LIB.ccl_report_comparison, ctypes.byref(about), ctypes.byref(JSON_STYLE))
    return Comparison(text, topo, head.interrupted, _arrays.texts(head.warnings, head.nwarnings))
