"""Arrays of the library as columns: numpy's where numpy is, else array.array."""

from __future__ import annotations

import array
import ctypes
from typing import Any, Dict, List

from ._library import decode

_CODES = {
    ctypes.c_double: "d",
    ctypes.c_uint32: "I",
    ctypes.c_uint16: "H",
    ctypes.c_uint8: "B",
    ctypes.c_int: "i",
}


def numpy() -> Any:
    """The module; None: it is not installed."""
    try:
        import numpy as module
    except ImportError:
        return None
    return module


def columns(pointer: Any, n: int, kind: Any, names: List[str]) -> Dict[str, Any]:
    """Members of an array of structs, copied: a column for each name (without the _ at the end of some)."""
    np = numpy()
    fields = dict(kind._fields_)
    data = ctypes.string_at(pointer, n * ctypes.sizeof(kind)) if n else b""
    if np is not None:
        dtype = np.dtype(
            {
                "names": names,
                "formats": [np.dtype(fields[name]) for name in names],
                "offsets": [getattr(kind, name).offset for name in names],
                "itemsize": ctypes.sizeof(kind),
            }
        )
        records = np.frombuffer(data, dtype=dtype)
        return {name.rstrip("_"): np.ascontiguousarray(records[name]) for name in names}
    structs = (kind * n).from_buffer_copy(data) if n else []
    return {
        name.rstrip("_"): array.array(_CODES[fields[name]], [getattr(s, name) for s in structs]) for name in names
    }


def texts(pointer: Any, n: int) -> List[str]:
    """An array of texts."""
    return [decode(pointer[i]) for i in range(n)]
