"""What is said on stderr. stdout belongs to the user's program."""

from __future__ import annotations

import contextlib
import sys

MAX_ALERT_LINES = 12


class Console:
    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._alerts = 0

    def say(self, text: str) -> None:
        """One line, unless quiet."""
        if not self._quiet:
            self._write(text)

    def warn(self, text: str) -> None:
        """One line even when quiet: the monitor itself has stopped or cannot see."""
        self._write(text)

    def alert(self, text: str) -> None:
        self._alerts += 1
        if self._alerts <= MAX_ALERT_LINES:
            self.say(text)
        elif self._alerts == MAX_ALERT_LINES + 1:
            self.say("further alerts are only in the database")

    @staticmethod
    def _write(text: str) -> None:
        # stderr may be closed, or None under pythonw.
        with contextlib.suppress(Exception):
            print(f"mpnanny: {text}", file=sys.stderr, flush=True)
