"""One alert: as the core raises it, and as users get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

AlertTuple: TypeAlias = tuple[
    int, str, int | None, str, str, float | None, float | None, bool | None, str
]


@dataclass(frozen=True)
class Alert:
    """One alert, as `on_alert` gets it. `producer`: True if the value has its origin here, False if
    it was only carried here, None unknown.
    """

    step: int
    phase: str
    layer: str | None
    type: str
    severity: str
    value: float | None
    threshold: float | None
    producer: bool | None
    message: str


@dataclass(slots=True)
class NewAlert:
    """An alert that the core has just raised: `layer` is the core's number. The parts of a run may
    add to the message before it is shown.
    """

    step: int
    phase: str
    layer: int | None
    type: str
    severity: str
    value: float | None
    threshold: float | None
    producer: bool | None
    message: str

    @property
    def of_shadow(self) -> bool:
        """Raised by a finding of a shadow step, which has the operator and the line already."""
        return self.type.startswith("SHADOW_") or self.type == "PROTOCOL"

    def named(self, layer: str | None) -> Alert:
        """As people get it, with the layer's name."""
        return Alert(
            self.step,
            self.phase,
            layer,
            self.type,
            self.severity,
            self.value,
            self.threshold,
            self.producer,
            self.message,
        )
