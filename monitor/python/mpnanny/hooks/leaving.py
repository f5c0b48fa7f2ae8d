"""Dispatch modes of ours that another thread cannot take off the stack they are on: torch keeps a
stack for each thread. They only pass on from then on, and go where their own thread is next heard.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..steps.thread import is_alive
from . import taps


class Leaving(taps.SomeCalls):
    """`take_off(mode)`: from the stack of the thread that calls."""

    def __init__(self, mode: Any, thread: int, take_off: Callable[[Any], None]) -> None:
        self._mode = mode
        self._thread = thread
        self._take_off = take_off

    def waits(self) -> None:
        """For its thread, if there still is one."""
        if is_alive(self._thread):
            taps.add(self)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("heard_"):
            raise AttributeError(name)
        return self._heard

    def _heard(self, *_: Any) -> None:
        try:
            if threading.get_ident() == self._thread:
                taps.remove(self)
                self._take_off(self._mode)
            elif not is_alive(self._thread):
                taps.remove(self)
        except Exception:  # the mode stays, and only passes on
            taps.remove(self)
