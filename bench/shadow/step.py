"""What a shadow step costs: over a plain step, by pass and by part of the shadow, and its memory.

Usage: PYTHONPATH=build/release/python .venv/bin/python bench/shadow/step.py [--model gpt]
         [--precision bf16] [--threads 1] [--rounds 7] [--profile]

Two watched copies of a model train in turns, three steps a turn: one with shadow="off", one with
"every=3", whose middle step is the shadowed one. The shadow step is what the second turn takes
beyond two thirds of the first. Prints one JSON line a model, precision and number of threads:
medians of the ratio by wall time and by processor time of the process, of the passes, and the
parts of the shadow as multiples of a plain step: the operators on the references, comparisons,
copies that references start with, looking for places, cures, and all other bookkeeping. The parts
are timed from outside, which costs about a microsecond a call, in turns of their own.

Memory: the most bytes that references took, and the peak resident memory of a process that shadows
beyond one that does not (both are started for this). --profile prints instead where the processor
time of the shadow goes, by cProfile in rows of own time (which does not see torch's operators), and
by operator: the plain one, the one on references, and the comparison of its results.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import os
import pstats
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mpnanny
import torch
from mpnanny.fp64 import operands, places, references
from mpnanny.shadow import changes, engine, evidence, step, tape
from trainings import SUBJECTS, Training
from turns import TURN, medians, pairs, shadowed_turns, watch

# Part: the functions whose own time it is. What is left of the mode is bookkeeping.
PARTS: dict[str, list[tuple[Any, str]]] = {
    "reference operators": [(engine.ShadowMode, "_reference_result")],
    "comparisons": [(tape.Tape, "_compare"), (tape, "compare_change")],
    "copies": [
        *((references.References, name) for name in ("writable", "start", "set", "restart")),
        (operands.Operands, "before_write"),
    ],
    "places": [(places.Places, "find")],
    "cures": [(evidence, "find_cure")],
    "lost changes": [(changes.Changes, "see"), (changes.Changes, "finish")],
    "end of the step": [(step.ShadowStep, "finish"), (step.ShadowStep, "gradients")],
    "judging": [(tape.Tape, "begins"), (tape.Tape, "result")],
    "bookkeeping": [(engine.ShadowMode, "_before"), (engine.ShadowMode, "_after")],
}


class Clock:
    """Own time of what it wraps: what is called inside and wrapped as well counts there."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._inner: list[float] = []

    def wrap(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            self._inner.append(0.0)
            began = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                took = time.perf_counter() - began
                self.seconds[part] += took - self._inner.pop()
                self.calls[part] += 1
                if self._inner:
                    self._inner[-1] += took

        return timed

    @contextmanager
    def on(self) -> Iterator[None]:
        found = [
            (owner, name, getattr(owner, name), part)
            for part, functions in PARTS.items()
            for owner, name in functions
        ]
        for owner, name, function, part in found:
            setattr(owner, name, self.wrap(part, function))
        try:
            yield
        finally:
            for owner, name, function, _ in found:
                setattr(owner, name, function)


def measure(model: str, precision: str, rounds: int, folder: str) -> dict[str, Any]:
    plain, shadowed = (Training(SUBJECTS[model], precision) for _ in range(2))
    with watch(plain, "off", folder):
        plain.steps(2 * TURN)
        with shadowed_turns(shadowed, folder):
            figures = medians(pairs(plain, shadowed, rounds))
            clock = Clock()
            with clock.on():
                shadowed.steps(2 * TURN)
    seconds = 2 * figures["plain_ms"] / 1e3
    figures["parts"] = {
        part: [clock.calls[part] // 2, round(clock.seconds[part] / seconds, 2)] for part in PARTS
    }
    return figures


def operators(training: Training, rows: int) -> str:
    """The operators of one shadow step that take the most time on references."""
    plain: Counter[str] = Counter()
    shadow: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    compared: Counter[str] = Counter()
    names = [""]
    dispatch = engine.ShadowMode.__torch_dispatch__
    reference = engine.ShadowMode._reference_result
    judged = tape.Tape.result

    def dispatches(mode: Any, func: Any, *arguments: Any) -> Any:
        names.append(str(func))
        began = time.perf_counter() - mode.seconds
        try:
            return dispatch(mode, func, *arguments)
        finally:
            plain[names.pop()] += time.perf_counter() - mode.seconds - began

    def references_run(*arguments: Any) -> Any:
        began = time.perf_counter()
        made = reference(*arguments)
        shadow[names[-1]] += time.perf_counter() - began
        calls[names[-1]] += 1
        return made

    def judges(*arguments: Any) -> None:
        began = time.perf_counter()
        judged(*arguments)
        compared[names[-1]] += time.perf_counter() - began

    for owner, name, function in (
        (engine.ShadowMode, "__torch_dispatch__", dispatches),
        (engine.ShadowMode, "_reference_result", references_run),
        (tape.Tape, "result", judges),
    ):
        setattr(owner, name, function)
    try:
        training.steps(TURN)
    finally:
        engine.ShadowMode.__torch_dispatch__ = dispatch  # type: ignore[method-assign]
        engine.ShadowMode._reference_result = reference  # type: ignore[method-assign]
        tape.Tape.result = judged  # type: ignore[method-assign]
    lines = ["calls  plain ms  reference ms  compared ms  operator"]
    for name, seconds in shadow.most_common(rows):
        figures = (1e3 * plain[name], 1e3 * seconds, 1e3 * compared[name])
        own, reference_ms, compared_ms = (f"{each:.1f}" for each in figures)
        row = f"{calls[name]:5d}  {own:>8}  {reference_ms:>12}  {compared_ms:>11}  {name}"
        lines.append(row)
    return "\n".join(lines)


def profile(model: str, precision: str, folder: str, rows: int) -> str:
    training = Training(SUBJECTS[model], precision)
    nanny = shadowed_turns(training, folder)
    profiler = cProfile.Profile(time.thread_time)
    dispatch = engine.ShadowMode.__torch_dispatch__

    def profiled(*arguments: Any) -> Any:
        profiler.enable()
        try:
            return dispatch(*arguments)
        finally:
            profiler.disable()

    engine.ShadowMode.__torch_dispatch__ = profiled  # type: ignore[method-assign]
    try:
        training.steps(TURN)
    finally:
        engine.ShadowMode.__torch_dispatch__ = dispatch  # type: ignore[method-assign]
    out = io.StringIO()
    pstats.Stats(profiler, stream=out).sort_stats("tottime").print_stats(rows)
    told = f"{out.getvalue().strip()}\n\n{operators(training, rows)}\n"
    nanny.close()
    return told


# --- memory, in processes of its own ---


def memory(model: str, precision: str, shadow: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        training = Training(SUBJECTS[model], precision)
        path = os.path.join(folder, "memory.db")
        with mpnanny.MixedPrecisionNanny(
            training.model, training.optimizer, db=path, quiet=True, shadow=shadow
        ):
            training.steps(6)
        with open("/proc/self/status", encoding="ascii") as lines:  # getrusage() has the parent's
            peak = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
        rows = sqlite3.connect(path).execute("SELECT max(memory) FROM shadow_step").fetchone()
    return {"peak": peak, "references": rows[0] or 0}


def memories(model: str, precision: str) -> dict[str, float]:
    made = {}
    for shadow in ("off", "every=3"):
        command = [sys.executable, __file__, "--memory", shadow]
        command += ["--model", model, "--precision", precision]
        made[shadow] = json.loads(subprocess.check_output(command, text=True))
    mb = 1 << 20
    plain, shadowed = made["off"], made["every=3"]
    return {
        "plain_peak_mb": round(plain["peak"] / mb),
        "shadow_peak_mb": round(shadowed["peak"] / mb),
        "references_mb": round(shadowed["references"] / mb),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=SUBJECTS, action="append")
    parser.add_argument("--precision", choices=("fp32", "bf16"), action="append")
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--profile", type=int, nargs="?", const=15, default=0)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    models = options.model or list(SUBJECTS)
    precisions = options.precision or ["fp32", "bf16"]
    if options.memory:
        torch.set_num_threads(1)
        print(json.dumps(memory(models[0], precisions[0], options.memory)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for threads in options.threads or [1, 2]:
            torch.set_num_threads(threads)
            for model in models:
                for precision in precisions:
                    if options.profile:
                        print(f"{model} {precision}")
                        print(profile(model, precision, folder, options.profile), flush=True)
                        continue
                    line = {"model": model, "precision": precision, "threads": threads}
                    line |= measure(model, precision, options.rounds, folder)
                    if threads == 1:
                        line |= memories(model, precision)
                    line["load"] = round(os.getloadavg()[0], 1)
                    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
