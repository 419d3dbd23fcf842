"""The shared library: found, loaded, called.

Functions are attributes of LIB, made of their prototypes when they are first used. Every pointer but text is passed as
an address.
"""

from __future__ import annotations

import ctypes
import glob
import os
import re
from typing import Any, Dict, List, Optional

from . import _structs as c
from ._prototypes import PROTOTYPES
from ._version import VERSION
from .errors import OF_STATUS, InternalError, MissingError

_SCALARS: Dict[str, Any] = {
    "void": None,
    "bool": ctypes.c_bool,
    "int": ctypes.c_int,
    "double": ctypes.c_double,
    "size_t": ctypes.c_size_t,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
}
_NAME = "libccllab.so." + ".".join(VERSION.split(".")[:2])


def _type(text: str) -> Any:
    """ "const char *name" and its like as a type of ctypes."""
    words = re.findall(r"\w+|\*", text)
    stars = words.count("*")
    base = words[1] if words[0] == "const" else words[0]
    if base == "ccl_origin_t":
        return ctypes.c_void_p  # an array
    if stars:
        return ctypes.c_char_p if base == "char" and stars == 1 else ctypes.c_void_p
    return _SCALARS.get(base, ctypes.c_int)  # all others are enums


def _candidates() -> List[str]:
    """Where the library may be: the one that is asked for, beside an installed package, where the loader looks."""
    asked = os.environ.get("CCLLAB_LIBRARY")
    if asked:
        return [asked]
    found = []
    folder = os.path.dirname(os.path.abspath(__file__))
    for _ in range(4):  # PREFIX/lib/python3/dist-packages/ccllab
        folder = os.path.dirname(folder)
        for lib in ("", "lib", "lib64"):
            for inside in ("", "*-linux-gnu*"):
                found += sorted(glob.glob(os.path.join(glob.escape(folder), lib, inside, _NAME)))
    return found + [_NAME]


class _Library:
    """The library; loaded when its first function is used."""

    def __init__(self) -> None:
        self._prototypes: Dict[str, List[str]] = {}

    def _load(self) -> None:
        text = " ".join(PROTOTYPES.split())
        for result, name, arguments in re.findall(r"(\w[\w *]*?)(\w+)\((.*?)\);", text):
            self._prototypes[name] = [result] + ([] if arguments == "void" else arguments.split(", "))
        why = []
        for path in _candidates():
            try:
                self._cdll = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)  # plugins call its functions
                break
            except OSError as error:
                why.append(str(error))
        else:
            raise MissingError(
                f"cannot load {_NAME} ({'; '.join(why)}): install ccllab, or set CCLLAB_LIBRARY to the library's path",
                exit_code=4,
            )
        version = self.ccl_notebook_tool().decode()
        if version.split(".")[:2] != VERSION.split(".")[:2]:
            del self._cdll
            raise MissingError(f"the library is version {version}, this package is of {VERSION}", exit_code=4)

    def __getattr__(self, name: str) -> Any:
        if name == "_cdll":
            raise AttributeError(name)
        if "_cdll" not in self.__dict__:
            self._load()
        if name not in self._prototypes:
            return ctypes.c_char.in_dll(self._cdll, name)  # a table
        result, *arguments = self._prototypes[name]
        function = getattr(self._cdll, name)
        function.restype = _type(result)
        function.argtypes = [_type(argument) for argument in arguments]
        setattr(self, name, function)
        return function


LIB = _Library()


def encode(text: Any) -> bytes:
    """Text or a path for the library."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise OF_STATUS["CCL_ERR_USAGE"]("text with a byte 0 in it")
    return data


def decode(data: Optional[bytes]) -> str:
    return data.decode("utf-8", "replace") if data else ""


def check(status: int, error: Any) -> None:
    """Raise what a function returned, unless it is CCL_OK."""
    if status == 0:
        return
    name = c.STATUSES[status] if status < len(c.STATUSES) else ""
    text = decode(error.text) if error.status else ""
    raise OF_STATUS.get(name, InternalError)(
        text or decode(LIB.ccl_status_meaning(status)),
        decode(error.where) or None,
        error.line or None,
        error.column or None,
        LIB.ccl_status_exit_code(status),
    )


class Handle:
    """An object of the library, destroyed with this one. Objects that it borrows from are kept."""

    __slots__ = ("address", "keep", "_destroy")

    def __init__(self, address: int, destroy: Any, *keep: Any) -> None:
        self.address = address
        self.keep = keep
        self._destroy = destroy

    def __del__(self) -> None:
        self._destroy(self.address)

    def read(self, kind: Any) -> Any:
        """It as a struct, which must not be used for longer than this handle."""
        return kind.from_address(self.address)


def make(function: Any, *arguments: Any) -> int:
    """Call a function whose last arguments are the object that it makes and the error; its address."""
    out, error = ctypes.c_void_p(), c.Error()
    check(function(*arguments, ctypes.byref(out), ctypes.byref(error)), error)
    return out.value or 0


def written(function: Any, *arguments: Any) -> bytes:
    """Call a function whose last arguments are a text and the error; the text."""
    text, error = c.Text(), c.Error()
    try:
        check(function(*arguments, ctypes.byref(text), ctypes.byref(error)), error)
        if text.nomem:
            raise OF_STATUS["CCL_ERR_NOMEM"]("out of memory", exit_code=4)
        return ctypes.string_at(text.data, text.len) if text.data else b""
    finally:
        LIB.ccl_text_fini(ctypes.byref(text))


def as_json(function: Any, about: Any, *more: Any) -> Any:
    """A result as the library writes it."""
    import json

    return json.loads(written(function, about, *more, ctypes.byref(JSON_STYLE)))


JSON_STYLE = c.ReportStyle(format=c.REPORT_FORMATS.index("CCL_REPORT_JSON"))


class Json:
    """A JSON document for the library."""

    def __init__(self, name: str, text: Optional[bytes] = None) -> None:
        """The text, or else the file of that name."""
        self.doc = c.JsonDoc()
        error = c.Error()
        at = ctypes.byref(self.doc), ctypes.byref(error)
        if text is None:
            check(LIB.ccl_json_read(encode(name), *at), error)
        else:
            check(LIB.ccl_json_parse(encode(name), text, len(text), *at), error)

    def __del__(self) -> None:
        LIB.ccl_json_fini(ctypes.byref(self.doc))
