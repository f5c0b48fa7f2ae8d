"""What a run has come to, for people: a few figures that grow with every step. The whole story is
in the database; nothing here is read back from it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..base.alerts import Alert
from ..base.later import settled
from ..steps.step import OpenStep

_RANKS = {"ERROR": 0, "WARNING": 1, "INFO": 2}
_LAYERS_SHOWN = 5


@dataclass
class _Kind:
    """The alerts of one type and severity."""

    first: Alert
    count: int = 0
    layers: dict[str, None] = field(default_factory=dict)  # in order, each once


@dataclass
class _Place:
    """The alerts of one layer."""

    worst: Alert
    count: int = 0


@dataclass
class Course:
    """Filled by the thread that trains, a step at a time."""

    early_steps: int = 100  # of which it is kept which were skipped
    started: float = field(default_factory=time.perf_counter)
    ended: float | None = None
    steps: int = 0
    first_loss: float | None = None
    last_loss: float | None = None
    least_loss: float | None = None
    first_scale: float | None = None
    last_scale: float | None = None
    least_scale: float | None = None
    rises: int = 0
    falls: int = 0
    skipped: int = 0
    early_skips: list[int] = field(default_factory=list)  # of the first steps, counted from 0
    _kinds: dict[tuple[str, str], _Kind] = field(default_factory=dict)
    _places: dict[str, _Place] = field(default_factory=dict)

    def step(self, step: OpenStep) -> None:
        """A step has ended, and what came of it is known."""
        loss: float | None = settled(step.loss)
        if loss is not None:
            if self.first_loss is None:
                self.first_loss = loss
            if math.isfinite(loss) and (self.least_loss is None or loss < self.least_loss):
                self.least_loss = loss
            self.last_loss = loss
        scale: float | None = settled(step.scale)
        after: float | None = settled(step.scale_after)
        if scale is not None:
            self._scale(scale, scale if after is None else after)
        if settled(step.skipped):
            self.skipped += 1
            if self.steps < self.early_steps:
                self.early_skips.append(self.steps)
        self.steps += 1

    def _scale(self, before: float, after: float) -> None:
        if self.first_scale is None or self.least_scale is None:
            self.first_scale = self.least_scale = before
        self.rises += after > before
        self.falls += after < before
        self.least_scale = min(self.least_scale, after)
        self.last_scale = after

    def alert(self, alert: Alert) -> None:
        """A new alert."""
        kind = self._kinds.setdefault((alert.severity, alert.type), _Kind(alert))
        kind.count += 1
        if alert.layer is None:
            return
        kind.layers[alert.layer] = None
        place = self._places.setdefault(alert.layer, _Place(alert))
        place.count += 1
        if _badness(alert) < _badness(place.worst):
            place.worst = alert

    @property
    def seconds(self) -> float:
        return (time.perf_counter() if self.ended is None else self.ended) - self.started

    def count(self, severity: str) -> int:
        return sum(kind.count for (of, _), kind in self._kinds.items() if of == severity)

    def alert_counts(self) -> str:
        """As '1 ERROR, 2 WARNING', or 'none'."""
        counts = [(self.count(severity), severity) for severity in _RANKS]
        return ", ".join(f"{n} {severity}" for n, severity in counts if n) or "none"

    def alerts(self) -> list[dict[str, Any]]:
        """By type, the worst first."""
        kinds = sorted(self._kinds.values(), key=lambda kind: _badness(kind.first))
        return [
            {
                "type": kind.first.type,
                "severity": kind.first.severity,
                "count": kind.count,
                "first_step": kind.first.step,
                "layers": list(kind.layers)[:_LAYERS_SHOWN],
            }
            for kind in kinds
        ]

    def worst_layers(self) -> list[dict[str, Any]]:
        """Where it is worst: an error before a warning, the origin of a value before where it
        was carried to, the earlier one first.
        """
        places = sorted(self._places.items(), key=lambda item: _badness(item[1].worst))
        return [
            {
                "layer": name,
                "type": place.worst.type,
                "severity": place.worst.severity,
                "step": place.worst.step,
                "producer": place.worst.producer,
                "alerts": place.count,
            }
            for name, place in places[:_LAYERS_SHOWN]
        ]


def _badness(alert: Alert) -> tuple[int, bool, int]:
    return _RANKS.get(alert.severity, len(_RANKS)), alert.producer is not True, alert.step


class Summary(dict[str, Any]):
    """What `summary()` returns: a dict of plain values, and a text for people when printed."""

    def lines(self, notes: bool = True) -> list[str]:
        """The text, one statement a line; `notes`: with what could not be watched."""
        loss, scale, verdict = self["loss"], self["loss_scale"], self["verdict"]
        text = f"{self['steps']} steps in {_duration(self['seconds'])}"
        if loss["last"] is not None:
            text += f", loss {arrow(loss['first'], loss['last'])}"
        if scale is not None:
            moves = f"{many(scale['falls'], 'fall')}, {many(scale['rises'], 'rise')}"
            text += f", loss scale {arrow(scale['first'], scale['last'])} ({moves})"
        if self["skipped_steps"]:
            text += f", {many(self['skipped_steps'], 'step')} skipped"
        lines = [text]
        lines += [_alert_line(alert) for alert in self["alerts"]] or ["alerts: none"]
        if self["worst_layers"]:
            worst = [
                f"{_word(layer['layer'] or '(model)')} ({layer['type']}"
                + (", origin" if layer["producer"] else "")
                + f", step {layer['step']})"
                for layer in self["worst_layers"]
            ]
            lines.append("worst layers: " + ", ".join(worst))
        if notes and self["notes"]:
            lines.append(f"notes: {_few(self['notes'], 3, '; ')}")
        if self["run"]:
            # Without an alert a run may be bad as well: only the diagnosis tells.
            if verdict:
                lines.append(verdict)
            healthy = verdict.startswith("HEALTHY")
            lines.append(f"Next: mpnanny {'summary --db' if healthy else 'diagnose'} {self['run']}")
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())


def summarise(course: Course, run: str, notes: Iterable[str], verdict: str = "") -> Summary:
    """`verdict`: the diagnosis' own, of a run that has ended."""
    scale = None
    if course.last_scale is not None:
        scale = {
            "first": course.first_scale,
            "last": course.last_scale,
            "min": course.least_scale,
            "rises": course.rises,
            "falls": course.falls,
        }
    return Summary(
        run=run,
        verdict=verdict,
        steps=course.steps,
        seconds=course.seconds,
        loss={"first": course.first_loss, "last": course.last_loss, "min": course.least_loss},
        loss_scale=scale,
        skipped_steps=course.skipped,
        alerts=course.alerts(),
        worst_layers=course.worst_layers(),
        notes=list(notes),
    )


def _alert_line(alert: dict[str, Any]) -> str:
    times = f" x {alert['count']}" if alert["count"] > 1 else ""
    where = ": " + _few([_word(each) for each in alert["layers"]], 3) if alert["layers"] else ""
    return f"{alert['severity']} {alert['type']}{times}, first at step {alert['first_step']}{where}"


def _word(layer: str) -> str:
    """A layer's name in a sentence: what nn.Sequential calls 0 is not seen to be a name."""
    return f'layer "{layer}"' if layer.replace(".", "").isdigit() else layer


def arrow(first: float, last: float) -> str:
    return f"{last:.6g}" if first == last else f"{first:.6g} -> {last:.6g}"


def many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _few(items: list[str], most: int, between: str = ", ") -> str:
    return between.join(items[:most]) + (" …" if len(items) > most else "")


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
