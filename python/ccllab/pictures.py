"""Pictures that notebooks show inline, as SVG, PDF and PNG."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Optional, Union

from . import _structs as c
from ._library import LIB, Handle, make, written
from .errors import UsageError

Path = Union[str, "os.PathLike[str]"]


class Picture:
    """A picture; notebooks show it when it is the value of a cell."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        """What a function of the library draws."""
        self._handle = Handle(make(function, *arguments), LIB.ccl_picture_destroy)

    def _write(self, form: str, width_px: Optional[int]) -> bytes:
        place = c.DRAW_FORMATS.index(form)
        return written(LIB.ccl_picture_write, self._handle.address, place, width_px or 0)

    def svg(self, width_px: Optional[int] = None) -> str:
        """An SVG file. width_px: it is scaled to this many pixels; None: its own width."""
        return self._write("CCL_DRAW_SVG", width_px).decode()

    def png(self, width_px: Optional[int] = None) -> bytes:
        """A PNG file; MissingError where the font DejaVu Sans is not installed."""
        return self._write("CCL_DRAW_PNG", width_px)

    def pdf(self) -> bytes:
        """A PDF file; MissingError where the font DejaVu Sans is not installed."""
        return self._write("CCL_DRAW_PDF", None)

    def save(self, path: Path, width_px: Optional[int] = None) -> None:
        """Write a file; the end of its name, .svg, .pdf or .png, chooses the format."""
        form = os.path.splitext(os.fspath(path))[1].lower().lstrip(".")
        if form not in ("svg", "pdf", "png"):
            raise UsageError(f"a picture is .svg, .pdf or .png, not {os.fspath(path)!r}")
        data = self._write("CCL_DRAW_" + form.upper(), width_px)
        with open(path, "wb") as file:
            file.write(data)

    def html(self, wide: bool = False) -> str:
        """An element svg for a page. wide: as wide as what it stands in."""
        return written(LIB.ccl_picture_write_inline, self._handle.address, wide).decode()

    def _repr_html_(self) -> str:
        return self.html()


def page(result: bytes, topology: Optional[int]) -> str:
    """A result, written as JSON, as the HTML page of `ccllab report`. topology: address of a cluster, drawn in it."""
    from ._library import Json

    json = Json("result", result)
    about = c.ReportPage(ndocs=1, docs=ctypes.addressof(json.doc), topo=topology)
    return written(LIB.ccl_report_page, ctypes.byref(about)).decode()
