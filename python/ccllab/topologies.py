"""Clusters."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _arrays
from . import _structs as c
from ._call import QUIET, Call
from ._library import JSON_STYLE, LIB, Handle, as_json, check, decode, encode, make, written
from .errors import NoMemoryError
from .pictures import Path, Picture

_KINDS = ["gpu", "switch", "nic", "host"]


class Topology:
    """A cluster: devices joined by links. topology() and topology_text() make one; it never changes.

    Attributes:
        name, nranks, ndevices, nlinks: what it is called, and how much there is of what.
        profile: the measured constants that lie over it; None: its own hold.
        edits: what was changed of what was read.
    """

    def __init__(self, raw: Handle, edits: Sequence[str], profile: Optional[str]) -> None:
        self._raw = raw
        self._asked = profile
        self.edits: Tuple[str, ...] = tuple(edits)
        self._machine, self._handle = _laid(raw, self.edits, profile)
        head = self._handle.read(c.Topology)
        self.name = decode(head.name)
        self.nranks: int = head.nranks
        self.ndevices: int = head.ndevices
        self.nlinks: int = head.nlinks
        self.profile: Optional[str] = decode(head.profile) or None

    @property
    def _address(self) -> int:
        return self._handle.address

    def edit(self, *edits: str) -> "Topology":
        """The cluster with further edits: "fail:gpu:3", "degrade:nic:0=50%", "scale:latency:net=2", "set:slots:net=4".

        docs/commands.md explains --fail, --degrade, --scale and --set, which these are.

        Raises:
            InputError: there is no such device or link, or what is left is no connected cluster.
        """
        return Topology(self._raw, self.edits + edits, self._asked)

    @property
    def devices(self) -> Dict[str, Any]:
        """Columns id, kind, server (None: none), rank (-1: no GPU)."""
        head = self._handle.read(c.Topology)
        servers = _arrays.texts(head.servers, head.nservers)
        devices = [head.devices[i] for i in range(head.ndevices)]
        return {
            "id": [decode(d.id) for d in devices],
            "kind": [_KINDS[d.kind] for d in devices],
            "server": [None if d.server == c.NONE else servers[d.server] for d in devices],
            "rank": [-1 if d.rank == c.NONE else d.rank for d in devices],
        }

    @property
    def links(self) -> Dict[str, Any]:
        """Columns from, to (device ids), kind, lanes, bandwidth_Bps, latency_s, contention; a row per direction."""
        head = self._handle.read(c.Topology)
        ids = [decode(head.devices[i].id) for i in range(head.ndevices)]
        kinds = _arrays.texts(head.kinds, head.nkinds)
        columns = _arrays.columns(head.links, head.nlinks, c.Link, [name for name, _ in c.Link._fields_])
        columns["from"] = [ids[i] for i in columns["from"]]
        columns["to"] = [ids[i] for i in columns["to"]]
        columns["kind"] = [kinds[i] for i in columns["kind"]]
        return columns

    def summary(self) -> Dict[str, Any]:
        """Devices, links and routes by kind: `ccllab topology show --json` (docs/results.md)."""
        routes = LIB.ccl_routes_create(self._address)
        if not routes:
            raise NoMemoryError("out of memory", exit_code=4)
        kept = Handle(routes, LIB.ccl_routes_destroy)
        result: Dict[str, Any] = as_json(LIB.ccl_report_topology, self._address, kept.address)
        return result

    def to_json(self) -> str:
        """The description in full, as topology_text() reads it."""
        return written(LIB.ccl_topology_write_json, self._address).decode()

    def save(self, path: Path) -> None:
        """Write to_json() to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json())

    def draw(self, title: Optional[str] = None) -> Picture:
        """The cluster as a picture; Run.draw() colours it by a run."""
        options = c.fresh(c.DrawTopologyOptions)
        options.title = encode(title) if title else None
        return Picture(LIB.ccl_draw_topology, self._address, ctypes.byref(options))

    def __repr__(self) -> str:
        profile = f", profile {self.profile}" if self.profile else ""
        return f"<Topology {self.name}: {self.nranks} GPUs{profile}>"

    def _repr_html_(self) -> str:
        return self.draw().html()


def topology(spec: Path, edits: Sequence[str] = (), profile: Optional[str] = None) -> Topology:
    """A cluster.

    Args:
        spec: a name of the library ("dgx-h100"), a file in any form that is read (docs/import.md), "here", several
            nodes ("dgx-h100*2"), or a one-liner ("servers:2 gpus:8 nvswitch=300GB/s nics:4x25GB/s").
        edits: as Topology.edit() takes them.
        profile: measured constants, a file or a name of the library; "none": the cluster's own; None: those that are
            fitted to its GPUs, where there are any, as the program takes them.

    Raises:
        InputError: with file, line and column, where it is a file.
    """
    call = Call()
    status, raw = call.object(LIB.ccl_topology_destroy, LIB.ccl_topology_read, encode(spec))
    check(status, call.error)
    assert raw is not None
    return Topology(raw, edits, profile)


def topology_text(
    text: str, name: str = "<text>", edits: Sequence[str] = (), profile: Optional[str] = None
) -> Topology:
    """As topology(), of a file's text; name is for messages."""
    data = text.encode()
    raw = make(LIB.ccl_topology_read_text, QUIET, encode(name), data, len(data))
    return Topology(Handle(raw, LIB.ccl_topology_destroy), edits, profile)


def _edited(handle: Handle, edits: Sequence[str], constants: bool) -> Handle:
    for edit in edits:
        if edit.startswith(("set:", "scale:")) == constants:
            handle = Handle(make(LIB.ccl_topology_edit, handle.address, encode(edit)), LIB.ccl_topology_destroy)
    return handle


def _laid(raw: Handle, edits: Sequence[str], profile: Optional[str]) -> Tuple[Handle, Handle]:
    """The cluster without and with its profile: what fails and degrades before it is laid over, constants after."""
    machine = laid = _edited(raw, edits, False)
    address = 0
    if profile is None:
        address = make(LIB.ccl_profile_for, machine.address)
    elif profile != "none":
        address = make(LIB.ccl_profile_read, encode(profile))
    if address:
        fitted = Handle(address, LIB.ccl_profile_destroy)
        laid = Handle(
            make(LIB.ccl_profile_apply, QUIET, fitted.address, machine.address), LIB.ccl_topology_destroy
        )
    same = laid is machine
    machine = _edited(machine, edits, True)
    return machine, machine if same else _edited(laid, edits, True)


def library() -> List[Dict[str, Any]]:
    """The built-in servers and clusters: name, summary, is_server."""
    entries = []
    at = LIB.ccl_topology_library()
    while True:
        entry = c.LibraryEntry.from_address(at + len(entries) * ctypes.sizeof(c.LibraryEntry))
        if not entry.name:
            return entries
        entries.append(
            {"name": decode(entry.name), "summary": decode(entry.summary), "is_server": bool(entry.is_server)}
        )


def schema(name: str) -> Dict[str, Any]:
    """The JSON Schema of results "ccllab/NAME/1", such as "compare"."""
    import json

    made: Dict[str, Any] = json.loads(written(LIB.ccl_report_schema, encode(name), ctypes.byref(JSON_STYLE)))
    return made
