"""What of the user's names goes into the file: they, or with record="minimal" hashes of them.

A hash is plain and not keyed, so the same layer has the same name in every run and in every file,
and runs can still be compared. That also means that someone who guesses a name can check the guess:
it keeps names from being read, not from being confirmed.
"""

from __future__ import annotations

import hashlib
import re

RECORDS = ("full", "minimal")

_HASH_BYTES = 5  # 40 bits: 10,000 names of one model share one with a chance of 1 in 20,000


def _hash(text: str) -> str:
    return "h" + hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).hexdigest()


class Record:
    """Turns names into what is recorded of them. `full` gives back everything as it is."""

    def __init__(self, record: str) -> None:
        self.minimal = record == "minimal"
        self._seen: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def layer(self, name: str) -> str:
        """A dotted name, part by part: who holds whom stays visible, and so do plain numbers."""
        if not self.minimal or not name:
            return name
        parts = [part if part.isdigit() else _hash(part) for part in name.split(".")]
        self._seen[name] = ".".join(parts)
        self._pattern = None
        return self._seen[name]

    def type(self, cls: type) -> str:
        """A module's class; torch's own have no secret in their names."""
        return self.name(cls.__name__) if cls.__module__.split(".")[0] != "torch" else cls.__name__

    def name(self, name: str) -> str:
        return _hash(name) if self.minimal and name else name

    def source(self, source: str) -> str:
        """'file:line': the line stays."""
        if not self.minimal or not source:
            return source
        file, _, line = source.rpartition(":")
        return f"{_hash(file)}:{line}" if file and line.isdigit() else _hash(source)

    def text(self, text: str) -> str:
        """A note for people, in which the names of layers may stand."""
        if not self.minimal or not self._seen:
            return text
        if self._pattern is None:
            names = sorted(map(re.escape, self._seen), key=len, reverse=True)
            self._pattern = re.compile(rf"(?<![\w.])(?:{'|'.join(names)})(?![\w]|\.\w)")
        return self._pattern.sub(lambda found: self._seen[found.group()], text)

    def error(self, error: Exception) -> str:
        """What went wrong in the monitor: the words of an error may quote anything."""
        kind = type(error).__name__
        return kind if self.minimal else f"{kind}: {error}"
