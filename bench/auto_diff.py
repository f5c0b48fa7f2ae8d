#!/usr/bin/env python3
"""auto_diff beside two plain passes: forward and backward in FP32 and under BF16 autocast.

    OMP_NUM_THREADS=1 PYTHONPATH=build/release/python python bench/auto_diff.py

See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from mpnanny.diff import _diff
from mpnanny.diff.quick import quick_answer
from mpnanny.programs.policy import Policy
from mpnanny.programs.program import Options, Program
from mpnanny.programs.specification import make_inputs
from mpnanny.programs.target import Target

sys.path.append(str(Path(__file__).parents[1] / "tests" / "monitor"))
import trial_models as models

MODELS: dict[str, tuple[Callable[[], torch.nn.Module], list[str]]] = {
    "mlp 2048": (
        lambda: torch.nn.Sequential(
            torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)
        ),
        ["float32[64,512]"],
    ),
    "gpt 6 x 256": (lambda: models.Gpt(256, 6, 8), ["int64[8,24]<61"]),
    "resnet": (lambda: models.ResNet(32), ["float32[8,1,32,32]"]),
    "unet": (lambda: models.UNet(32), ["float32[8,1,32,32]", "int64[8]<1000"]),
    "translator": (lambda: models.Translator(128), ["int64[8,24]<24", "int64[8,20]<24"]),
}


def seconds(run: Callable[[], Any], rounds: int) -> float:
    """Median of processor time."""
    times = []
    run()
    for _ in range(rounds):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return statistics.median(times)


def measure(name: str, rounds: int) -> dict[str, float]:
    make, words = MODELS[name]
    torch.manual_seed(0)
    model = make()
    program = Program(Target(name, lambda: model, ""), make_inputs(words, 0), Options())
    policy = Policy("cuda-autocast", "bf16", "cpu")

    def plain() -> None:
        for dtype in (None, torch.bfloat16):
            case = program.attempt(None)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is not None):
                torch.manual_seed(7)
                case.outputs = [("", case.run(*case.args, **case.kwargs))]
            program.backward(case, 1.0)

    return {
        "plain": seconds(plain, rounds),
        "modules": seconds(lambda: quick_answer(program, policy), rounds),
        "operators": seconds(lambda: _diff(program, policy, None, None), rounds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = {name: measure(name, given.rounds) for name in MODELS}
    if given.json:
        print(json.dumps(rows))
        return
    print(f"{'model':14} {'two passes':>11} {'modules':>9} {'operators':>10}")
    for name, row in rows.items():
        plain = row["plain"]
        print(
            f"{name:14} {plain * 1e3:8.1f} ms {row['modules'] / plain:8.2f}x"
            f" {row['operators'] / plain:9.2f}x"
        )


if __name__ == "__main__":
    main()
