"""What relations see of a training step that runs a second time in FP64 (shadow/step.py)."""

from __future__ import annotations

from typing import Protocol

from ..fp64.dependencies import Dependencies
from ..fp64.references import References


class ShadowedOperators(Protocol):
    @property
    def dependencies(self) -> Dependencies: ...
    @property
    def references(self) -> References: ...
    @property
    def looking(self) -> bool: ...


class ShadowedStep(Protocol):
    number: int

    @property
    def mode(self) -> ShadowedOperators: ...
