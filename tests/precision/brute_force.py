"""The search for islands beside brute force, which tries every set of units, the smallest first:
`python brute_force.py`. Right: the search finds no larger set.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Collection

import evaluate
import families
import planted
from mpnanny.precision.effect import Trials
from mpnanny.precision.scaler import first_scale
from mpnanny.precision.units import Anatomy
from mpnanny.programs.policy import Policy

MOST_TOGETHER = 3
SMALL = ("gan", "autoencoder", "contrastive", "graph", "waves", "cnn")


def smallest_sets(
    trials: Trials, units: list[str], tolerance: float
) -> tuple[list[tuple[str, ...]], int]:
    """All sets of the smallest size that is enough, and how many were tried."""
    trials.run(units)
    tried = 0
    for many in range(MOST_TOGETHER + 1):
        found = []
        for wide in itertools.combinations(units, many):
            tried += 1
            effect = trials.run([unit for unit in units if unit not in wide])
            if effect.error <= tolerance:
                found.append(wide)
        if found:
            return found, tried
    return [], tried


def is_right(each: planted.Planted) -> bool:
    program = evaluate.family(each.family, each.plant)
    began = time.monotonic()
    anatomy, found = evaluate.measure(program, each.way)
    searched = time.monotonic() - began
    assert found.found is not None
    pure = each.way == "bf16-weights"
    policy = Policy("pure" if pure else "cuda-autocast", each.way[:4], "cpu")
    began = time.monotonic()
    with policy.installed():
        trials = Trials(program, policy, "pure" if pure else "autocast")
        if each.way == "fp16-autocast":
            trials.scale_for = scales(anatomy)
        units = list(anatomy.units)
        best, tried = smallest_sets(trials, units, found.found.tolerance)
    right = bool(best) and len(found.islands) <= len(best[0])
    print(
        f"{'ok  ' if right else 'MISS'} {each.family} {each.kind} {each.way}, {len(units)} units:"
        f" searched {found.islands} in {found.found.passes} passes, {searched:.2f} s;"
        f" smallest sets {best} in {tried} passes, {time.monotonic() - began:.2f} s",
        flush=True,
    )
    return right


def scales(anatomy: Anatomy):
    def scale_for(low: Collection[str]) -> float:
        return first_scale(anatomy.units[unit] for unit in low)

    return scale_for


def main() -> int:
    right = [is_right(each) for each in planted.draw(families.FAMILIES) if each.family in SMALL]
    print(f"as small as the smallest: {sum(right)} of {len(right)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
