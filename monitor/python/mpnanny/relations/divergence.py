"""Whether a run diverges: values that left a format's range after they had grown by orders of
magnitude since the first steps. The updates are too large, and more precision would only put the
end off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import nn

from ..fp64.findings import DIVERGED, EXCLUDED, RANGE, UNDEFINED, Finding
from ..fp64.places import Site
from ..model.weights import largest_weight

# A run diverges where the values of an operator and the weights have grown by this since it began.
GROWTH = 1e3
WEIGHT_GROWTH = 30.0


class Divergence:
    """Of one run. `model()`: None once it is gone."""

    def __init__(self, model: Callable[[], nn.Module | None]) -> None:
        self._model = model
        self._magnitudes: dict[Any, float] = {}  # of the results of each place, in the first step
        self._weight = 0.0  # the largest, then
        self._line: Site | None = None  # that steps the optimizer

    def began(self, magnitudes: dict[Any, float]) -> None:
        """A shadow step has ended; the first one counts."""
        if magnitudes and not self._magnitudes:
            self._magnitudes = magnitudes
            self._weight = largest_weight(self._model())

    def optimizer_ended(self, site: Site | None) -> None:
        """An optimizer has stepped."""
        self._line = site or self._line

    def find(self, found: list[Finding]) -> Finding | None:
        """Values that left a format's range after they had grown by orders of magnitude since the
        first steps: the updates are too large, and more precision would only put the end off.
        """
        for each in found:
            if each.kind not in (RANGE, UNDEFINED) or not each.reach:
                continue
            first = self._magnitudes.get(each.site.key)
            if not first or each.magnitude < GROWTH * first or self._line is None:
                continue
            weights = largest_weight(self._model())
            if not self._weight or weights < WEIGHT_GROWTH * self._weight:
                continue
            for other in found:
                other.precision = EXCLUDED
            return Finding(
                kind=DIVERGED,
                site=self._line,
                number=0,
                dtype=each.dtype,
                shape=each.shape,
                share=each.share,
                magnitude=each.magnitude,
                error_in=0.0,
                error_out=math.inf,
                precision=EXCLUDED,
                severity="ERROR",
                reach=dict(each.reach),
                detail={
                    "growth": each.magnitude / first,
                    "at": each.site.source,
                    "operator": each.site.operator,
                },
            )
        return None
