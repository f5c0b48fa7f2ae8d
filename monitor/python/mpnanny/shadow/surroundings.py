"""What the shadow steps of a run need around them: torch's stack of modes, and somebody who takes
what they find.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..fp64.findings import Finding
from .step import ShadowStep


class Stack(Protocol):
    """Torch's stack of dispatch modes."""

    def push(self, mode: Any) -> bool: ...
    def remove(self, mode: Any) -> None: ...
    def leave(self, mode: Any, thread: int) -> None: ...  # on `thread`, which takes it off
    def holds(self, mode: Any) -> bool: ...
    def usable(self) -> bool: ...  # whether what was refused now may be taken later


class Sink(Protocol):
    """Takes what was found."""

    def begins(self, step: ShadowStep, most_bytes: int) -> None: ...
    def shadowed(self, step: ShadowStep, why: str, seconds: float) -> None: ...
    def found(self, step: int, findings: list[Finding]) -> None: ...
    def refused(self, why: str) -> None: ...
