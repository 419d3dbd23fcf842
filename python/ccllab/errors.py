"""Errors of the library as exceptions."""

from __future__ import annotations

from typing import Any, Optional


class CcllabError(Exception):
    """Something did not work; each kind of it is a class below.

    Attributes:
        kind: what it is in one word, such as "input".
        text: one line: what is wrong, and what would be right.
        file: file, option or object that it is about; None where there is none.
        line: in the file, from 1; None where it is not known.
        column: likewise.
        exit_code: that of the program ccllab in the same case.
    """

    kind = "error"

    def __init__(
        self,
        text: str,
        file: Optional[str] = None,
        line: Optional[int] = None,
        column: Optional[int] = None,
        exit_code: int = 2,
    ) -> None:
        self.text = text
        self.file = file
        self.line = line
        self.column = column
        self.exit_code = exit_code
        self.partial: Any = None
        """What was finished before: a Comparison where compare() was cancelled; else None."""
        where = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(f"{where}: {text}" if where else text)


class CheckError(CcllabError):
    """A program or a schedule is wrong."""

    kind = "wrong"


class InfeasibleError(CcllabError):
    """There is no solution."""

    kind = "infeasible"


class DeadlockError(CcllabError):
    """A program cannot finish."""

    kind = "deadlock"
    deadlock: Any = None
    """Who waits for whom, and on what it depends: "deadlock" of docs/results.md#simulate, as a dict."""


class UnsupportedError(CcllabError):
    """This method or format cannot do it here."""

    kind = "unsupported"


class UsageError(CcllabError, ValueError):
    """An argument that there is not, or a value that it does not take."""

    kind = "usage"


class InputError(CcllabError, ValueError):
    """Bad input: a file, or a name of something."""

    kind = "input"


class LimitError(CcllabError):
    """A limit was reached, and nothing was found by then."""

    kind = "limit"


class FileError(CcllabError, OSError):
    """A file, a device or a process failed."""

    kind = "file"


class MissingError(CcllabError):
    """A device, module, library or right is not here."""

    kind = "missing"


class NoMemoryError(CcllabError, MemoryError):
    """Out of memory."""

    kind = "memory"


class InternalError(CcllabError):
    """A bug in ccllab; please report it."""

    kind = "bug"


class Cancelled(CcllabError):
    """Stopped by a Cancel; see `partial`."""

    kind = "cancelled"


OF_STATUS = {
    "CCL_CHECK": CheckError,
    "CCL_INFEASIBLE": InfeasibleError,
    "CCL_DEADLOCK": DeadlockError,
    "CCL_UNSUPPORTED": UnsupportedError,
    "CCL_ERR_USAGE": UsageError,
    "CCL_ERR_INPUT": InputError,
    "CCL_TIMEOUT": LimitError,
    "CCL_ERR_IO": FileError,
    "CCL_ERR_MISSING": MissingError,
    "CCL_ERR_NOMEM": NoMemoryError,
    "CCL_ERR_INTERNAL": InternalError,
    "CCL_INTERRUPTED": Cancelled,
}
