"""Findings as rows of the database: what each is made of, under the names that the record shows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from ..base.record import Record
from ..fp64.findings import Finding
from ..model.names import LayerNames


class FindingRows:
    """Of one run."""

    def __init__(self, core: Any, names: LayerNames, record: Record) -> None:
        self._core = core
        self._names = names
        self._record = record
        self._ids: dict[Any, int] = {}  # of findings, in the database
        # Details that name something of the program, or are no single number: how each is shown.
        self._details: dict[str, Callable[[Any], Any]] = {
            "operands": lambda pairs: [[_number(value) for value in pair] for pair in pairs],
            "derivative": lambda pairs: [[_number(value) for value in pair] for pair in pairs],
            "meets": lambda pairs: [[name, record.source(at)] for name, at in pairs],
            "inputs_from": lambda pairs: [[name, record.source(at)] for name, at in pairs],
            "parameters": self._layers,
            "saved": self._layers,
            "restored": self._layers,
            "left": lambda sources: [record.source(source) for source in sources],
            "entered": record.source,
            "home": record.source,
            "called_from": lambda lines: [record.source(line) for line in lines],
            "what": record.text,
            "whose": self._owner,
            "at": lambda at: record.source(str(at)),
        }

    def write(self, step: int, finding: Finding) -> None:
        """A new row, or the one that it has from an earlier step."""
        site = finding.site
        layer = None if site.module is None else self._names.find(site.module)
        reach = [
            {"what": what, "name": self._shown(what, name), "error": _number(error)}
            for (what, name), error in sorted(
                finding.reach.items(), key=lambda each: -each[1] if each[1] == each[1] else 0.0
            )[:8]
        ]
        cure = None
        if finding.cure is not None:
            cure = json.dumps(
                {
                    "lines": [self._record.source(line) for line in finding.cure.lines],
                    "operators": finding.cure.operators,
                    "what": finding.cure.what,
                    "error_before": _number(finding.cure.error_before),
                    "error_after": _number(finding.cure.error_after),
                }
            )
        detail = {
            key: self._details.get(key, _number)(value)
            for key, value in finding.detail.items()
            if key != "came_in"
        }
        if (origin := self._origin(finding)) is not None:
            detail["origin"] = origin
        if site.forward and site.forward != site.operator:
            detail["forward"] = site.forward
        self._ids[finding.key] = self._core.shadow_finding(
            self._ids.get(finding.key, 0),
            step,
            finding.kind,
            finding.severity,
            site.phase,
            layer,
            site.operator,
            self._record.source(site.source) or None,
            finding.dtype,
            finding.shape,
            finding.share,
            finite(finding.magnitude),
            finite(finding.error_in),
            finite(finding.error_out),
            finding.precision,
            json.dumps(reach) if reach else None,
            cure,
            json.dumps(detail) if detail else None,
        )

    def _origin(self, finding: Finding) -> dict[str, Any] | None:
        """Where its error came in: what the judge says, or the finding that it carries on."""
        root, came_in = finding.root(), finding.detail.get("came_in")
        if root is not finding:
            return {
                "operator": root.site.operator,
                "source": self._record.source(root.site.source),
                "phase": root.site.phase,
                "dtype": root.dtype,
                "error": _number(root.error_out),
            }
        if came_in is None:
            return None
        told = {name: each for name, each in came_in.items() if name != "called_from"}
        return {**told, "source": self._record.source(came_in["source"])}

    def _layers(self, names: list[str]) -> list[str]:
        return [self._record.layer(name) for name in names]

    def _owner(self, whose: str) -> str:
        """A layer's name, or words with the class that holds it, which is the program's own."""
        name, _, kind = whose.partition(" of ")
        return (
            name.partition(" ")[0] if kind and self._record.minimal else self._record.layer(whose)
        )

    def _shown(self, what: str, name: str) -> str:
        if what in ("output", "index", "decision", "replaced"):
            return self._record.source(name)
        return self._record.layer(name)


def finite(value: float) -> float | None:
    """What a column of numbers takes of `value`."""
    return value if math.isfinite(value) else None


def _number(value: Any) -> Any:
    """JSON has no numbers that are not finite: they are words, as in every answer."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
