"""What shadow steps cost a whole run: shadow="auto" beside shadow="off", both watched.

Usage: PYTHONPATH=build/release/python .venv/bin/python bench/shadow/run.py [--model gpt]
         [--precision bf16] [--threads 1] [--steps 100] [--pairs 3]

Runs of the same training, of so many steps each, in turns; their order alternates. Prints one JSON
line a model and precision: median of the pairs' ratios of wall time, from the first step to the end
of close(), and of processor time of the process; the median of the seconds beyond "off"; what the
shadow has counted itself as its own seconds, which another program's load hardly touches; how many
steps were shadowed. A shadow may take 1 % of a run, or 5 seconds where that is more.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import tempfile
import time
from typing import Any

import mpnanny
import torch
from trainings import SUBJECTS, Training


def run(model: str, precision: str, shadow: str, steps: int) -> dict[str, float]:
    training = Training(SUBJECTS[model], precision)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.db")
        wall, processor = time.perf_counter(), time.process_time()
        with mpnanny.MixedPrecisionNanny(
            training.model, training.optimizer, db=path, quiet=True, shadow=shadow
        ):
            training.steps(steps)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        rows = sqlite3.connect(path).execute("SELECT detail FROM shadow_step").fetchall()
    own = sum(json.loads(detail)["own_seconds"] for (detail,) in rows)
    return {"wall": wall, "processor": processor, "own": own, "shadowed": len(rows)}


def measure(model: str, precision: str, steps: int, pairs: int) -> dict[str, Any]:
    made: list[dict[str, dict[str, float]]] = []
    for pair in range(pairs):
        order = ("off", "auto") if pair % 2 == 0 else ("auto", "off")
        made.append({shadow: run(model, precision, shadow, steps) for shadow in order})

    def median(figure: str, beyond: bool = False) -> float:
        both = [(each["auto"][figure], each["off"][figure]) for each in made]
        return round(statistics.median(a - o if beyond else a / o for a, o in both), 3)

    return {
        "model": model,
        "precision": precision,
        "threads": torch.get_num_threads(),
        "steps": steps,
        "pairs": pairs,
        "off_seconds": round(statistics.median(each["off"]["wall"] for each in made), 1),
        "ratio": median("wall"),
        "processor_ratio": median("processor"),
        "seconds_beyond": median("wall", beyond=True),
        "processor_seconds_beyond": median("processor", beyond=True),
        "own_seconds": round(statistics.median(each["auto"]["own"] for each in made), 2),
        "shadow_steps": sorted(each["auto"]["shadowed"] for each in made),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=SUBJECTS, action="append")
    parser.add_argument("--precision", choices=("fp32", "bf16"), action="append")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for model in options.model or SUBJECTS:
        for precision in options.precision or ("fp32", "bf16"):
            print(json.dumps(measure(model, precision, options.steps, options.pairs)), flush=True)


if __name__ == "__main__":
    main()
