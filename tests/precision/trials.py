"""Trains planted and healthy models in FP32, with the plan and all low: `python trials.py`.

Right: a planted model's plan is type 1 and everything low is type 2; a healthy model has no islands
and its plan is type 1.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import evaluate
import families
import planted
from mpnanny.precision.trial import Trainings
from mpnanny.programs.specification import make_inputs

STEPS = 120
BATCHES = 8


def batch(fixed: list[Any], step: int) -> Any:
    return fixed[step % len(fixed)]


def is_right(name: str, of: str, way: str, plant: planted.Planted | None) -> bool:
    program = evaluate.family(of, plant.plant if plant else None)
    began = time.monotonic()
    _, found = evaluate.measure(program, way)
    words = families.FAMILIES[of][1]
    fixed = [tuple(each.value for each in make_inputs(words, at)) for at in range(BATCHES)]
    tried = Trainings(program, STEPS, partial(batch, fixed)).try_plan(found)
    plan, low = tried.judgement, tried.all_low_judgement
    if plant is None:
        right = not found.islands and plan.verdict == "type_1"
    else:
        right = plan.verdict == "type_1" and low is not None and low.verdict == "type_2"
    print(
        f"{'ok  ' if right else 'MISS'} {name:45} {way:14} islands {found.islands} plan"
        f" {plan.verdict} {plan.reason} {plan.difference} all low"
        f" {low and (low.verdict, low.reason, low.difference)} noise {tried.noise:.2g}"
        f" {time.monotonic() - began:.1f} s",
        flush=True,
    )
    return right


def main() -> int:
    drawn = planted.draw(families.FAMILIES)
    right = [is_right(f"{each.family} {each.kind}", each.family, each.way, each) for each in drawn]
    print(f"planted: {sum(right)} of {len(right)}")
    right = [
        is_right(name, name, way, None)
        for name in families.FAMILIES
        for way in ("bf16-autocast", "fp16-autocast")
    ]
    print(f"healthy: {sum(right)} of {len(right)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
