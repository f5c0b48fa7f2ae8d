"""What is said on stderr. stdout belongs to the user's program."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

MAX_ALERT_LINES = 12
_CLEAR = "\r\x1b[K"  # a terminal's line, from its start


class Console:
    """`rank`: of a distributed run, whose lines say which they are; None outside of one. `name`: of
    the run among several in this process, from the moment that `several()` is true.
    """

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.rank: int | None = None
        self.name = ""
        self.several: Callable[[], bool] = bool
        self._named = False
        self._alerts = 0
        self._in_place = False  # the cursor stands in a progress line

    def say(self, text: str) -> None:
        """One line, unless quiet."""
        if not self.quiet:
            self._write(text)

    def say_for_all(self, text: str) -> None:
        """A line that every rank would say alike: the first one does."""
        if not self.rank:
            self.say(text)

    def warn(self, text: str) -> None:
        """One line even when quiet: the monitor itself has stopped or cannot see."""
        self._write(text)

    def alert(self, text: str) -> None:
        self._alerts += 1
        if self._alerts <= MAX_ALERT_LINES:
            self.say(text)
        elif self._alerts == MAX_ALERT_LINES + 1:
            self.say("further alerts are only in the database")

    def progress(self, text: str) -> bool:
        """A line that the next one replaces, on a terminal (True: then it costs no room); elsewhere
        a line as any.
        """
        if self.quiet:
            return False
        columns = _terminal_columns()
        if columns is None:
            self._write(text)
            return False
        if not _progress_bar_runs():
            with contextlib.suppress(Exception):
                shown = f"{self._who()}: {text}"[: max(columns - 1, 1)]
                print(_CLEAR + shown, end="", file=sys.stderr, flush=True)
                self._in_place = True
        return True

    def _write(self, text: str) -> None:
        # stderr may be closed, or None under pythonw.
        with contextlib.suppress(Exception):
            clear, self._in_place = _CLEAR if self._in_place else "", False
            print(f"{clear}{self._who()}: {text}", file=sys.stderr, flush=True)

    def _who(self) -> str:
        who = "mpnanny" if self.rank is None else f"mpnanny rank {self.rank}"
        self._named = self._named or self.several()
        return f"{who} {self.name}" if self._named else who


def _terminal_columns() -> int | None:
    """None where stderr is no terminal."""
    try:
        if not sys.stderr.isatty():
            return None
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80  # 0: it does not say
    except Exception:
        return None


def _progress_bar_runs() -> bool:
    """The user's own bar (tqdm) keeps rewriting the same line: two of them make a mess."""
    tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)
    return bool(len(getattr(tqdm, "_instances", ())))
