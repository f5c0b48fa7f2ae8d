#!/usr/bin/env python3
"""Trainings of more than one thread under the monitor, beside the same ones without it.

    soak.py [--scenario NAME …] [--seconds 10] [--runs 3]

A run is a process that trains rounds of a scenario (scenarios.py) for some seconds and says how
many it made and which bits came of them; then another process makes as many rounds unwatched. One
line for each scenario: runs, crashes (a signal, an exception, or no answer), runs with the bits of
the unwatched ones. Exits with 1 if a run crashed or had other bits.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

SHADOWS = ("auto", "off", "every=5")
INTERVALS = (1, 3)


def child(scenario: str, seconds: float, rounds: int, watch: bool) -> None:
    """`rounds`: so many, or 0: as many as there is time for."""
    faulthandler.enable()
    import torch

    sys.path.insert(0, str(Path(__file__).parent))
    from scenarios import SCENARIOS, unwatched

    torch.set_num_threads(1)
    sys.setswitchinterval(1e-5)  # threads take turns often
    number = 0

    def opened(model: Any, optimizer: Any, **options: Any) -> Any:
        from mpnanny import MixedPrecisionNanny

        return MixedPrecisionNanny(
            model,
            optimizer,
            db=f"{scenario}.db",
            quiet=True,
            trace_interval=INTERVALS[number % len(INTERVALS)],
            shadow=SHADOWS[number % len(SHADOWS)],
            **options,
        )

    died: list[str] = []
    threading.excepthook = lambda what: died.append(repr(what.exc_value))
    digest = hashlib.sha256()
    until = time.monotonic() + seconds
    while number < rounds or (not rounds and time.monotonic() < until):
        digest.update(SCENARIOS[scenario](number, opened if watch else unwatched))
        number += 1
    if died:
        raise RuntimeError(f"threads died: {died}")
    print(json.dumps({"rounds": number, "bits": digest.hexdigest()}))


def run(scenario: str, seconds: float, rounds: int, watch: bool, folder: str) -> tuple[Any, str]:
    """What the child said (None: it crashed), and how it ended."""
    # The child needs what this process imports, from another folder.
    path = os.pathsep.join(os.path.abspath(each) for each in sys.path if each)
    env = {**os.environ, "PYTHONPATH": path}
    if watch and "SOAK_PRELOAD" in env:  # a sanitizer's runtime
        env["LD_PRELOAD"] = env["SOAK_PRELOAD"]
    command = [sys.executable, os.path.abspath(__file__), "--child", scenario]
    command += [str(seconds), str(rounds), str(int(watch))]
    patience = 20 * seconds + 120
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=patience
        )
    except subprocess.TimeoutExpired as late:
        return None, f"no end after {patience:g} s: {_text(late.stderr)[-800:]}"
    said = None
    if done.returncode == 0:
        with contextlib.suppress(ValueError, IndexError):
            said = json.loads(done.stdout.splitlines()[-1])
    end = f"exit code {done.returncode}"
    if done.returncode < 0:
        end = signal.Signals(-done.returncode).name
    return said, f"{end}: {done.stderr[-1500:]}"


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def soak(scenario: str, seconds: float, runs: int, show: bool) -> dict[str, Any]:
    counts: dict[str, Any] = {"scenario": scenario, "runs": 0, "crashes": 0, "bits_equal": 0}
    counts["rounds"] = 0
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            said, end = run(scenario, seconds, 0, True, folder)
            counts["runs"] += 1
            if said is None:
                counts["crashes"] += 1
                if show:
                    print(end, file=sys.stderr, flush=True)
                continue
            counts["rounds"] += said["rounds"]
            plain, end = run(scenario, seconds, said["rounds"], False, folder)
            if plain is None:
                print(f"the unwatched training failed: {end}", file=sys.stderr, flush=True)
            elif plain["bits"] == said["bits"]:
                counts["bits_equal"] += 1
    return counts


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        name, seconds, rounds, watch = sys.argv[2:]
        child(name, float(seconds), int(rounds), bool(int(watch)))
        return 0
    sys.path.insert(0, str(Path(__file__).parent))
    from scenarios import SCENARIOS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--scenario", action="append", choices=sorted(SCENARIOS), help="all by default"
    )
    parser.add_argument("--seconds", type=float, default=10, help="of a watched run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--show", action="store_true", help="how runs crashed")
    asked = parser.parse_args()
    wrong = 0
    for scenario in asked.scenario or SCENARIOS:
        counts = soak(scenario, asked.seconds, asked.runs, asked.show)
        print(
            f"{scenario:17} {counts['runs']} runs, {counts['crashes']} crashes,"
            f" {counts['bits_equal']} with equal bits, {counts['rounds']} rounds",
            flush=True,
        )
        wrong += counts["runs"] - counts["bits_equal"]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
