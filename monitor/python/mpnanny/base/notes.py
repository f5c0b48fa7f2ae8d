"""What could not be watched, and what went wrong in the monitor: said once, kept with the run."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from .console import Console
from .record import Record

_F = TypeVar("_F", bound=Callable[..., Any])


class Running(Protocol):
    """Of a run's state, what decides whether anything is done (RunState)."""

    recording: bool
    number: int


class Notes:
    """`store(json)`: the core's set_notes. `event(step, type, detail)`: the core's."""

    def __init__(
        self,
        console: Console,
        record: Record,
        state: Running,
        store: Callable[[str], None],
        event: Callable[[int | None, str, str | None], None],
    ) -> None:
        self.texts: list[str] = []
        self._console = console
        self._record = record
        self._state = state
        self._store = store
        self._event = event
        self._troubles: set[str] = set()

    def note(self, text: str) -> None:
        """Something that could not be watched."""
        if text in self.texts:
            return
        self.texts.append(text)
        self._console.say(text)
        self._save()

    def keep(self, text: str) -> None:
        """A note that is said elsewhere."""
        self.texts.append(text)
        self._save()

    def trouble(self, where: str, error: Exception) -> None:
        """The monitor has failed; never raises. If not even that can be kept, it stops."""
        if where in self._troubles:
            return
        self._troubles.add(where)
        try:
            detail = {"where": where, "error": self._record.error(error)}
            number = self._state.number if self._state.number >= 0 else None
            self._event(number, "hook_failed", json.dumps(detail))
            self.note(f"{where} failed in the monitor (training is not touched): {detail['error']}")
        except Exception:
            self._state.recording = False

    def _save(self) -> None:
        self._store(json.dumps([self._record.text(note) for note in self.texts]))


def harmless(method: _F) -> _F:
    """For methods that training calls, of objects with the attributes `state` and `notes`: outside
    of a run nothing is done, and whatever goes wrong in the monitor stays in the monitor.
    """

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.state.recording:
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self.notes.trouble(method.__name__, error)
            return None

    return guarded  # type: ignore[return-value]
