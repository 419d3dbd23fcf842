"""Options by name: rows of the library's tables (`ccl_option_t`) put into its structs of options."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Set, Tuple

from . import _structs as c
from ._library import LIB, Json, check, decode, encode
from .errors import UsageError

_TYPE = {name: place for place, name in enumerate(c.OPTION_TYPES)}


def sim_tables() -> List[int]:
    return [ctypes.addressof(LIB.ccl_sim_option_table)]


def lower_tables() -> List[int]:
    return [ctypes.addressof(LIB.ccl_lower_option_table)]


def synth_tables() -> List[int]:
    tables = []
    while True:
        table = LIB.ccl_synth_option_table(len(tables))
        if not table:
            return tables
        tables.append(table)


def _rows(table: int) -> List[Any]:
    rows = []
    size = ctypes.sizeof(c.Option)
    while True:
        row = c.Option.from_address(table + len(rows) * size)
        if not row.name:
            return rows
        rows.append(row)


def _text(row: Any, value: Any) -> str:
    """A Python value as it is written on a command line."""
    if isinstance(value, bool):
        raise UsageError(f"{decode(row.name)} is not true or false")
    if isinstance(value, (int, float)):
        if row.type == _TYPE["CCL_OPTION_TIME"]:
            return f"{value!r}s"
        if row.type == _TYPE["CCL_OPTION_PERCENT"]:
            return repr(value * 100)
        return repr(value)
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)


def _put(row: Any, value: Any, options: Any, keep: List[Any]) -> None:
    error = c.Error()
    if row.type == _TYPE["CCL_OPTION_FLAG"]:
        if not isinstance(value, bool):
            raise UsageError(f"{decode(row.name)} is true or false, not {value!r}")
        ctypes.c_bool.from_address(ctypes.addressof(options) + row.offset).value = value
    elif row.type == _TYPE["CCL_OPTION_INPUT"]:
        json = Json(str(value))
        keep.append(json)
        at = ctypes.addressof(options) + row.offset
        ctypes.c_void_p.from_address(at).value = ctypes.addressof(json.doc)
    elif row.type == _TYPE["CCL_OPTION_SCHEDULE"]:
        from .programs import Schedule  # which has options itself

        if not isinstance(value, Schedule):
            raise UsageError(f"{decode(row.name)} is a Schedule, not {value!r}")
        handle = value._handle
        keep.append(handle)
        at = ctypes.addressof(options) + row.offset
        ctypes.c_void_p.from_address(at).value = handle.address
    elif row.type == _TYPE["CCL_OPTION_OUTPUT"]:
        raise UsageError(f"{decode(row.name)} is of the command line")
    else:
        text = encode(_text(row, value))
        keep.append(text)
        check(
            LIB.ccl_option_parse(ctypes.addressof(row), text, ctypes.byref(options), ctypes.byref(error)),
            error,
        )


def apply(values: Dict[str, Any], into: List[Tuple[List[int], Any]]) -> Tuple[Set[str], List[Any]]:
    """Put values into structs; None is the default.

    Args:
        values: options, with _ for -.
        into: tables, and the struct that they are of.

    Returns:
        The names that were given, and what must live as long as the structs.
    """
    given: Set[str] = set()
    keep: List[Any] = []
    for name, value in values.items():
        if value is None:
            continue
        dashed = name.replace("_", "-")
        found = False
        for tables, options in into:
            for table in tables:
                for row in _rows(table):
                    if decode(row.name) == dashed:
                        _put(row, value, options, keep)
                        found = True
        if not found:
            known = [decode(row.name).replace("-", "_") for tables, _ in into for t in tables for row in _rows(t)]
            raise UsageError(f"no option {name!r}{nearest(name, known)}")
        given.add(dashed)
    return given, keep


def nearest(word: str, words: List[str]) -> str:
    """', did you mean "..."?', or nothing."""
    array = (ctypes.c_char_p * (len(words) + 1))(*[encode(w) for w in words], None)
    near = LIB.ccl_nearest(encode(word), array)
    return f', did you mean "{decode(near)}"?' if near else ""


def size_bytes(value: Any) -> float:
    """A size: a number of bytes, or text such as "64M" (K, M, G are 2^10, 2^20, 2^30)."""
    if isinstance(value, str):
        out, error = ctypes.c_double(), c.Error()
        check(LIB.ccl_parse_bytes(encode(value), ctypes.byref(out), ctypes.byref(error)), error)
        number = out.value
    else:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise UsageError(f"a size is a number of bytes or text such as '64M', not {value!r}") from None
    if not 0 < number < float("inf"):
        raise UsageError(f"a size is more than 0, not {value!r}")
    return number


def sizes_bytes(value: Any) -> List[float]:
    """Sizes: one, several, or text such as "64K:1G:4,3M" (FIRST:LAST[:FACTOR], factor 2 by default)."""
    if not isinstance(value, str):
        try:
            return [size_bytes(item) for item in value]
        except TypeError:
            return [size_bytes(value)]
    sizes = []
    for word in value.split(","):
        first, *more = word.split(":")
        low = size_bytes(first)
        if not more:
            sizes.append(low)
            continue
        high = size_bytes(more[0])
        try:
            factor = float(more[1]) if len(more) > 1 else 2.0
        except ValueError:
            factor = 0.0
        if high < low or not 1 < factor < float("inf") or len(more) > 2:
            raise UsageError(f"a range of sizes is FIRST:LAST or FIRST:LAST:FACTOR, ascending, not {word!r}")
        k = 0
        while low * factor**k <= high * (1 + 1e-9):
            sizes.append(low * factor**k)
            k += 1
            if k > 4096:
                raise UsageError(f"{word!r} is more than 4096 sizes")
    return sizes
