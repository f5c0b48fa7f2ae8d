"""What `replay` adds to a shadow step: the same operators once more in their own type.

Usage: PYTHONPATH=build/release/python .venv/bin/python bench/shadow/replay.py [--model gpt]
         [--precision bf16] [--threads 1] [--rounds 5]

Three watched copies of a model train in turns of three steps: without a shadow, with one on the
middle step, and with one that replays. One JSON line a model and precision: medians of the shadow
step over a plain one, by processor time and by wall time, without and with `replay`, and how many
operators of a step ran again.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
from typing import Any

import torch
from trainings import SUBJECTS, Training
from turns import TURN, medians, pairs, watch


def measure(model: str, precision: str, rounds: int, folder: str) -> dict[str, Any]:
    plain, shadowed, replayed = (Training(SUBJECTS[model], precision) for _ in range(3))
    found: dict[str, Any] = {"model": model, "precision": precision}
    with watch(plain, "off", folder):
        plain.steps(2 * TURN)
        for name, training, words in (
            ("shadow", shadowed, f"every={TURN}"),
            ("replay", replayed, f"every={TURN} replay"),
        ):
            with watch(training, words, folder):
                training.steps(TURN + 2)
                figures = medians(pairs(plain, training, rounds))
            found[name] = [figures["processor_ratio"], figures["ratio"]]
            found["plain_ms"] = figures["plain_ms"]
    file = sqlite3.connect(f"{folder}/{id(replayed)}-every={TURN} replay.db")
    (detail,) = file.execute("SELECT detail FROM shadow_step ORDER BY step DESC LIMIT 1").fetchone()
    told = json.loads(detail)
    found["replayed"], found["not_replayed"] = told["replayed"], told["not_replayed"]
    return found


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--model", choices=SUBJECTS, action="append")
    arguments.add_argument("--precision", action="append")
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    torch.set_num_threads(given.threads)
    for model in given.model or list(SUBJECTS):
        for precision in given.precision or ["fp32", "bf16"]:
            with tempfile.TemporaryDirectory() as folder:
                print(json.dumps(measure(model, precision, given.rounds, folder)), flush=True)


if __name__ == "__main__":
    main()
