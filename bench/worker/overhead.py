#!/usr/bin/env python3
"""What running operator by operator costs the worker, over the library's own forward pass.

    OMP_NUM_THREADS=1 PYTHONPATH=build/release/python .venv/bin/python bench/worker/overhead.py

See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests" / "worker"))
sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests" / "monitor"))
import trial_models as models
from asking import PROGRAM, inputs
from mpnanny.programs.specification import make_inputs

# Name -> what makes it, its inputs, whether it can be scripted (else it is traced).
MODELS: dict[str, tuple[Callable[[], nn.Module], list[str], bool]] = {
    "mlp 2048": (
        lambda: nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)),
        ["float32[64,512]"],
        True,
    ),
    "gpt 6 x 256": (lambda: models.Gpt(256, 6, 8), ["int64[8,24]<61"], False),
    "resnet 32": (lambda: models.ResNet(32), ["float32[8,1,32,32]"], True),
    "unet 32": (lambda: models.UNet(32), ["float32[8,1,32,32]", "int64[8]<1000"], True),
    "tiny": (
        lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)),
        ["float32[4,8]"],
        True,
    ),
}


def write(name: str, folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """The model as TorchScript and as a program."""
    make, words, scriptable = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    args = tuple(each.value for each in make_inputs(words, 0))
    script, program = folder / "model.pt", folder / "model.pt2"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.jit.script(model) if scriptable else torch.jit.trace(model, args)
        torch.jit.save(made, str(script))
        torch.export.save(torch.export.export(model, args), program)
    return script, program


def median_ms(run: Callable[[], Any], rounds: int) -> float:
    """After three runs that are not counted, as the worker does not count its first ones."""
    times = []
    for _ in range(rounds + 3):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times[3:])


def library_ms(path: pathlib.Path, words: list[str], rounds: int) -> float:
    """The library's own forward pass, in this process on one thread."""
    args = [each.value for each in make_inputs(words, 0)]
    if path.suffix == ".pt":
        model = torch.jit.load(str(path))
    else:
        model = torch.export.load(path).module()
    with torch.no_grad():
        return median_ms(lambda: model(*args), rounds)


def worker_ms(path: pathlib.Path, words: list[str], rounds: int) -> dict[str, float | None]:
    """forward_ms and op_by_op_ms, measured by the worker in itself."""
    done = subprocess.run(
        [PROGRAM, "capture", path, *inputs(words), "--time", str(rounds)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{path.name}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def measure(name: str, folder: pathlib.Path, rounds: int, repeats: int) -> dict[str, Any]:
    """By turns: the worker, then the library; medians over the turns, and of their ratios."""
    rows: dict[str, Any] = {}
    words = MODELS[name][1]
    for path in write(name, folder):
        turns = []
        for _ in range(repeats):
            told = worker_ms(path, words, rounds)
            forward = told["forward_ms"] or library_ms(path, words, rounds)
            turns.append((forward, told["op_by_op_ms"]))
        rows[path.suffix] = {
            "forward_ms": statistics.median(forward for forward, _ in turns),
            "op_by_op_ms": statistics.median(single for _, single in turns),
            "ratio": statistics.median(single / forward for forward, single in turns),
            "ratio_most": max(single / forward for forward, single in turns),
        }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="passes of each turn")
    parser.add_argument("--repeats", type=int, default=5, help="turns")
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--library", action="store_true", help="only time the libraries")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in given.model or MODELS:
            if given.library:
                for path in write(name, pathlib.Path(folder)):
                    taken = library_ms(path, MODELS[name][1], given.rounds)
                    print(f"{name:14} {path.suffix:5} {taken:10.3f} ms")
                continue
            rows[name] = measure(name, pathlib.Path(folder), given.rounds, given.repeats)
    if given.json:
        print(json.dumps(rows))
    elif rows:
        print(
            f"{'model':14} {'format':6} {'forward':>11} {'op by op':>11} {'ratio':>7} {'most':>7}"
        )
        for name, formats in rows.items():
            for ending, row in formats.items():
                print(
                    f"{name:14} {ending:6} {row['forward_ms']:8.3f} ms {row['op_by_op_ms']:8.3f} ms"
                    f" {row['ratio']:7.2f} {row['ratio_most']:7.2f}"
                )


if __name__ == "__main__":
    main()
