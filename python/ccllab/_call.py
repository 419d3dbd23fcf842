"""Long calls: progress, cancellation, messages, Ctrl-C."""

from __future__ import annotations

import _thread
import ctypes
import signal
import threading
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from . import _structs as c
from ._library import Handle, decode
from .errors import UsageError


class Progress(NamedTuple):
    """How far a call is; see `progress` of compare()."""

    phase: str
    done: int
    total: int
    """0: not known."""
    best_s: float
    """Best time so far, seconds; 0: not known."""
    bound_s: float
    """Lower bound, seconds; 0: not known."""


ProgressFunction = Callable[[Progress], Any]


class Cancel:
    """Stops the calls that it is given to: they raise Cancelled. From any thread, or from a progress function."""

    def __init__(self) -> None:
        self._flag = ctypes.c_int(0)

    def cancel(self) -> None:
        self._flag.value = 1

    @property
    def cancelled(self) -> bool:
        return self._flag.value != 0


def _log(level: int, subsystem: bytes, text: bytes, _user: Any) -> None:
    import logging

    levels = [logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG]
    logger = logging.getLogger("ccllab")
    if level < len(levels) and logger.isEnabledFor(levels[level]):
        logger.log(levels[level], "%s: %s", decode(subsystem), decode(text))


_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)(_log)
_LOG_ADDRESS = ctypes.cast(_LOG, ctypes.c_void_p).value
QUIET = ctypes.byref(c.Ctx(log=_LOG_ADDRESS, seed=1))
"""A context of short calls, shared by all."""
_PROGRESS_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(c.Progress), ctypes.c_void_p)


class Call:
    """The context of one call: ccl_ctx_t, and what comes back through it."""

    def __init__(
        self,
        progress: Optional[ProgressFunction] = None,
        cancel: Optional[Cancel] = None,
        seed: int = 1,
        threads: int = 0,
    ) -> None:
        self.error = c.Error()
        self._cancel = cancel or Cancel()
        self._progress = progress
        self._raised: Optional[BaseException] = None
        if not 0 <= threads <= 4096 or not 0 <= seed < 1 << 64:
            raise UsageError("threads must be 0 (one per core) to 4096, seed 0 to 2^64 - 1")
        self.ctx = c.Ctx(log=_LOG_ADDRESS, cancel=ctypes.addressof(self._cancel._flag), seed=seed, threads=threads)
        if progress is not None:
            self._callback = _PROGRESS_TYPE(self._tell)
            self.ctx.progress = ctypes.cast(self._callback, ctypes.c_void_p)

    def _tell(self, at: Any, _user: Any) -> int:
        if self._raised is None:
            now = at.contents
            try:
                self._progress(  # type: ignore[misc]
                    Progress(decode(now.phase), now.done, now.total, now.best_s, now.bound_s)
                )
            except BaseException as error:  # it is raised where the call was made
                self._raised = error
        return int(self._raised is not None)

    @property
    def ref(self) -> Any:
        return ctypes.byref(self.ctx)

    def run(self, function: Any, *arguments: Any) -> int:
        """function(ctx, *arguments, error) in a thread, so that Ctrl-C arrives; its status.

        Outside of the main thread, or where Ctrl-C is not Python's, it is called directly. An exception of the progress
        function is raised, KeyboardInterrupt when the call has ended.
        """
        if not self._interruptible():
            return self.run_here(function, *arguments)
        status: List[int] = []
        once, ended = _thread.allocate_lock(), _thread.allocate_lock()
        ended.acquire()

        def work() -> None:
            if not once.acquire(False):
                return  # started a second time, as a signal came before the first was noted
            try:
                status.append(self.run_here(function, *arguments))
            except BaseException as error:
                self._raised = error
            finally:
                ended.release()

        before = self._cancel._flag.value
        started, interrupt = False, None
        while True:
            try:
                if not started:
                    _thread.start_new_thread(work, ())
                    started = True
                ended.acquire()
                break
            except BaseException as error:  # of a signal handler
                interrupt = interrupt or error
                self._cancel._flag.value = 1
        if interrupt is not None:
            self._cancel._flag.value = before
            raise interrupt
        if self._raised is not None:
            raise self._raised
        return status[0]

    def object(self, destroy: Any, function: Any, *arguments: Any) -> Tuple[int, Optional[Handle]]:
        """run() of a function whose last arguments are the object that it makes and the error: status and object."""
        out = ctypes.c_void_p()
        try:
            status = self.run(function, *arguments, ctypes.byref(out))
        except BaseException as error:
            if out.value:
                error._ccllab_made = Handle(out.value, destroy)  # type: ignore[attr-defined]
            raise
        return status, Handle(out.value, destroy) if out.value else None

    def run_here(self, function: Any, *arguments: Any) -> int:
        """The same in this thread; Ctrl-C arrives when it has ended."""
        status: int = function(self.ref, *arguments, ctypes.byref(self.error))
        if self._raised is not None:
            raise self._raised
        return status

    @staticmethod
    def _interruptible() -> bool:
        return (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) not in (signal.SIG_DFL, signal.SIG_IGN, None)
        )
