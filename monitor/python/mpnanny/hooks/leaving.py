"""Dispatch modes of ours that another thread cannot take off the stack they are on: torch keeps a
stack for each thread. They only pass on from then on, and go where their own thread is next heard.
"""

from __future__ import annotations

import threading
from typing import Any

from ..operators import modes
from ..steps.thread import is_alive
from . import taps


def leave(mode: Any, thread: int) -> None:
    """Takes `mode` off the stack of `thread` as soon as that is heard, if there still is one."""
    if is_alive(thread):
        taps.add(_Leaving(mode, thread))


class _Leaving(taps.SomeCalls):
    def __init__(self, mode: Any, thread: int) -> None:
        self._mode = mode
        self._thread = thread

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("heard_"):
            raise AttributeError(name)
        return self._heard

    def _heard(self, *_: Any) -> None:
        try:
            if threading.get_ident() == self._thread:
                taps.remove(self)
                modes.remove(self._mode)
            elif not is_alive(self._thread):
                taps.remove(self)
        except Exception:  # the mode stays, and only passes on
            taps.remove(self)
