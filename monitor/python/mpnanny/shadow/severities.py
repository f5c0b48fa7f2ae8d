"""How severe findings are in the light of the run: what broke before them, how often they come
back, and whether a loss scale is still being searched for.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..fp64.findings import INTEGERS, PROVEN, Finding
from ..fp64.selection import CHOICES
from .schedule import Schedule

# Steps in which gradients that overflow and are left out belong to the search for a loss scale,
# from 2^16 down to 1. stability.h says the same of those of a GradScaler.
SEARCH = 16


def _is_choice(finding: Finding) -> bool:
    """Other ones of several numbers were chosen."""
    name = finding.site.operator.split(".")[1] if "." in finding.site.operator else ""
    return finding.kind == INTEGERS and f"aten::{name}" in CHOICES


class Severities:
    """Of one run."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.broken = False  # an ERROR was found
        self.onset: int | None = None  # the step in which something was not finite first
        self.shadow_steps = 0
        self._recurring: Counter[Any] = Counter()  # shadow steps in which a finding was made

    def settle(self, found: list[Finding], step: int, count: int) -> None:
        """Of what was found in `step`, before which there were `count` training steps."""
        for each in found:
            if "from" in each.detail:
                after = self.onset is not None and self.onset < step
                if after:  # it carries on what broke then, and does not explain it
                    each.detail["onset"] = self.onset
                if each.detail.get("carrier") == "state":  # an earlier failure has spoilt it
                    each.severity = "INFO" if self.broken or after else "WARNING"
            if each.severity == "WARNING" and each.is_discarded and count < SEARCH:
                each.severity = "INFO"  # the search for a loss scale that the program keeps
            elif each.severity == "WARNING" and _is_choice(each) and each.precision != PROVEN:
                each.severity = "INFO"  # FP32 may choose as here
            elif each.severity == "WARNING" and (
                each.only_blurs_gradients
                or each.is_discarded
                or (_is_choice(each) and each.site.phase != "data")
            ):
                self._recurring[each.key] += 1
                if self._recurring[each.key] < self._schedule.needed(self.shadow_steps):
                    each.severity = "INFO"  # sums cancel, batches overflow by chance now and then
        self.broken = self.broken or any(each.severity == "ERROR" for each in found)
