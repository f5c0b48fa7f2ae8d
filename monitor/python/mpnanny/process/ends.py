"""The process around a run: how it ends, and forked children that must not touch it."""

from __future__ import annotations

import atexit
import multiprocessing.process
import os
import signal
import sys
import threading
import weakref
from types import FrameType, TracebackType
from typing import Any, Protocol

from torch import nn

from ..hooks import taps
from .cell import Cell


class Run(Protocol):
    """What is watched in this process (Session). No call raises."""

    db: str  # the file
    model: nn.Module
    cell: Cell | None

    def close(self, reason: str = ...) -> None: ...
    def flush(self) -> None: ...
    def expect_end(self, reason: str, error: BaseException | None = None) -> None: ...
    def abandon(self) -> None: ...


_live: weakref.WeakSet[Run] = weakref.WeakSet()
# With those that have stopped: until they are collected they hold files and threads, which a forked
# child must not wait for when it collects them itself.
_begun: weakref.WeakSet[Run] = weakref.WeakSet()
_changes = threading.RLock()  # of these; of a thread that a signal interrupts, too
_installed = False
_had_runs = False


def in_spawned_import() -> bool:
    """True while a spawned child imports the parent's script: a run begun there would be a second
    one by accident.
    """
    return bool(getattr(multiprocessing.process.current_process(), "_inheriting", False))


def live_runs() -> list[Run]:
    with _changes:
        return list(_live)


def had_runs() -> bool:
    """Whether anything was ever watched in this process."""
    return _had_runs


def add(run: Run) -> None:
    global _had_runs
    with _changes:
        _had_runs = True
        _install()
        _live.add(run)
        _begun.add(run)


def remove(run: Run) -> None:
    with _changes:
        _live.discard(run)
        if not _live:
            _uninstall()


def _install() -> None:
    global _installed, _excepthook, _on_sigterm
    if not _installed:
        _installed = True
        atexit.register(_at_exit)
        os.register_at_fork(after_in_child=_after_fork)
    if _excepthook is None:
        sys.excepthook = _excepthook = _ExceptHook(sys.excepthook)
    if _on_sigterm is None and threading.current_thread() is threading.main_thread():
        current = signal.getsignal(signal.SIGTERM)
        # A signal that is ignored, or handled outside Python (None), stays as it is.
        if current is not None and current is not signal.SIG_IGN:
            _on_sigterm = _SigtermHandler(current)
            signal.signal(signal.SIGTERM, _on_sigterm)


def _uninstall() -> None:
    """What someone has put theirs on top of stays below it, and only passes on from now on."""
    global _excepthook, _on_sigterm
    if _excepthook is not None:
        if sys.excepthook is _excepthook:
            sys.excepthook = _excepthook.previous
        _excepthook = None
    handler = _on_sigterm
    if handler is not None and threading.current_thread() is threading.main_thread():
        previous = handler.previous
        if signal.getsignal(signal.SIGTERM) is handler:
            signal.signal(signal.SIGTERM, previous)
        _on_sigterm = None


def _at_exit() -> None:
    for run in live_runs():
        run.close()


def _after_fork() -> None:
    global _changes
    _changes = threading.RLock()  # no other thread is left
    # First: parts of a run take their listeners away, by a lock that another thread may have held.
    taps.forget()
    for run in list(_begun):
        run.abandon()
    _live.clear()
    _begun.clear()
    # The child's own way to die is what it was without us.
    _uninstall()


class _ExceptHook:
    def __init__(self, previous: Any) -> None:
        self.previous = previous

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        for run in live_runs():
            run.expect_end("signal" if issubclass(kind, KeyboardInterrupt) else "exception", error)
        (self.previous or sys.__excepthook__)(kind, error, trace)


class _SigtermHandler:
    def __init__(self, previous: Any) -> None:
        self.previous = previous

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if callable(self.previous):
            # Someone handles it, perhaps by saving a checkpoint and going on: what is known is
            # written, and the run stays open.
            for run in live_runs():
                run.expect_end("signal")
                run.flush()
            self.previous(number, frame)
            return
        for run in live_runs():
            run.close("signal")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


_excepthook: _ExceptHook | None = None
_on_sigterm: _SigtermHandler | None = None
