"""Scores the search for FP32 islands: `python evaluate.py planted` (modules put into healthy
models), `others` (programs of tests/auto_diff whose faults others planted and labelled), `families`
(healthy models: nothing should stay in FP32).

Found: an island is at the label. A miss is also more than one island too many.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import conftest  # noqa: F401  puts the folders of the models on the path
import families
import planted
from mpnanny.precision.candidates import WAYS, Candidate, Question, measure_way
from mpnanny.precision.devices import find_device
from mpnanny.precision.units import Anatomy, look
from mpnanny.precision.whole_numbers import WholeNumbers
from mpnanny.programs.policy import full_precision
from mpnanny.programs.problem import Problem
from mpnanny.programs.program import Options, Program
from mpnanny.programs.specification import make_inputs
from mpnanny.programs.target import Target, find_target

HERE = Path(__file__).parent
DEVICE = find_device("h100")


def measure(program: Program, way: str) -> tuple[Anatomy, Candidate]:
    program.inputs_need_gradient = False
    case = program.attempt(None)
    with full_precision("cpu"):
        anatomy = look(program, case, [])
    chosen = next(each for each in WAYS if each.name == way)
    return anatomy, measure_way(chosen, program, anatomy, Question(DEVICE), WholeNumbers(program))


def family(name: str, change: Any = None) -> Program:
    make, words = families.FAMILIES[name]

    def made() -> Any:
        import torch

        torch.manual_seed(3)
        model = make()
        return model if change is None else change(model)

    return Program(Target(name, made, ""), make_inputs(words, 0), Options())


def score_planted() -> list[dict[str, Any]]:
    rows = []
    for each in planted.draw(families.FAMILIES):
        began = time.monotonic()
        _, found = measure(family(each.family, each.plant), each.way)
        rows.append(
            row(
                f"{each.family} {each.kind} {each.way}",
                [each.place],
                found,
                time.monotonic() - began,
            )
        )
    return rows


def score_others() -> list[dict[str, Any]]:
    rows = []
    for name in ("planted_a", "planted_b"):
        folder = HERE.parent / "auto_diff" / name
        for label, of in json.loads((folder / "labels.json").read_text()).items():
            file, _, target = of["target"].partition(":")
            request = {"model": f"{folder / file}:{target}", "root": str(folder), **of}
            if of.get("healthy") or of["policy"] == "cpu-autocast":
                continue
            try:
                target = find_target(request)
                made = make_inputs(of["input"], 0)
                program = Program(target, made, Options(backward=of["backward"]))
            except Problem:
                continue  # a function
            if program.attempt(None).module is None:
                continue
            way = "bf16-weights" if of["policy"] == "pure" else f"{of['dtype']}-autocast"
            began = time.monotonic()
            anatomy, found = measure(program, way)
            places = [
                unit
                for unit, known in anatomy.units.items()
                if any(int(line.rpartition(":")[2]) in of["lines"] for line in known.lines)
            ]
            rows.append(row(f"{label} {way}", places, found, time.monotonic() - began))
    return rows


def score_families() -> list[dict[str, Any]]:
    rows = []
    for name in families.FAMILIES:
        for way in ("fp16-autocast", "bf16-autocast", "bf16-weights", "fp8-linear"):
            began = time.monotonic()
            _, found = measure(family(name), way)
            rows.append(row(f"{name} {way}", [], found, time.monotonic() - began))
    return rows


def row(name: str, places: list[str], found: Candidate, seconds: float) -> dict[str, Any]:
    islands = found.islands + found.fp8_left_out
    hit = bool(set(places) & set(islands)) if places else not islands
    right = hit and len(islands) <= max(1, len(places)) + 1
    breaks = found.found is not None and found.all_low.error > found.found.tolerance
    tolerance = found.found.tolerance if found.found else 0.0
    print(
        f"{'ok  ' if right else 'MISS'} {name:45} places {places} islands {islands} "
        f"all {found.all_low.error:.3g} after {found.error.error:.3g} tolerance {tolerance:.3g} "
        f"wide {found.work.wide_share:.2f} {seconds:.1f} s {found.all_low.raised}"
    )
    return {"name": name, "right": right, "breaks": breaks, "islands": islands, "seconds": seconds}


SETS = {
    "planted": score_planted,
    "others": score_others,
    "families": score_families,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", choices=SETS)
    given = parser.parse_args()
    rows = SETS[given.set]()
    broken = [each for each in rows if each["breaks"]]
    print(f"right: {sum(each['right'] for each in rows)} of {len(rows)}", end="; ")
    print(f"of those that break: {sum(each['right'] for each in broken)} of {len(broken)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
