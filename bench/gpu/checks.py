"""The checks of scripts/gpu, each a process of its own: checks.py NAME DEVICE prints one JSON
line for every row as soon as it is known.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import mpnanny
import torch
from answers import choosing, comparing, guarding
from bits import bits, compiling
from costs import host, launches, memory, overhead, shadow
from kernels import kernels
from sandbox import sandbox
from setup import PRECISIONS, SKIPPED, Planted, Row, Rows, Setup, rows_of, some, verdict
from trainings import Subject, Training

PACKAGE = os.path.dirname(os.path.abspath(mpnanny.__file__)) + os.sep


# --- waits for the device ---

WAITED = 40  # steps; some parts of the monitor look at every 32nd


def syncs(setup: Setup) -> Rows:
    """Plain steps of a watched run that also has shadow steps: torch tells every wait."""
    for name, subject in setup.subjects().items():
        for precision in PRECISIONS:
            yield _syncs(setup, name, subject, precision)


def _syncs(setup: Setup, name: str, subject: Subject, precision: str) -> Row:
    what = f"{name}, {precision}"
    places: list[str] = []

    def seen(message: Any, *_: Any, **__: Any) -> None:
        if "synchroniz" not in str(message):
            return
        stack = [each for each in traceback.extract_stack() if each.filename.startswith(PACKAGE)]
        if stack:
            places.append(f"{stack[-1].filename.removeprefix(PACKAGE)}:{stack[-1].lineno}")

    def steps(training: Training, mode: str) -> None:
        training.wait, wait = (lambda: None), training.wait
        if setup.device == "cuda":
            torch.cuda.set_sync_debug_mode(mode)
        try:
            training.steps(WAITED)
        finally:
            if setup.device == "cuda":
                torch.cuda.set_sync_debug_mode("default")
            training.wait = wait

    fused = {"fused": True} if setup.device == "cuda" else {}
    plain, watched = (setup.training(subject, precision) for _ in range(2))
    for each in (plain, watched):
        each.optimizer = torch.optim.AdamW(each.model.parameters(), lr=1e-4, **fused)
    plain.steps(6)
    try:
        steps(plain, "error")
    except RuntimeError as error:
        return Row(what, SKIPPED, f"the unwatched training waits itself: {error}")
    nanny = setup.watch(watched, trace_interval=10**9, shadow="steps=0-2")
    watched.steps(6)  # the sampled step is among them, and all shadow steps
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = seen  # type: ignore[assignment]
        steps(watched, "warn")
    before = len(nanny.summary()["notes"])
    raised = ""
    try:
        steps(watched, "error")
    except RuntimeError as error:
        raised = str(error)
    nanny.close()
    notes = [each for each in nanny.summary()["notes"][before:] if "synchroniz" in each]
    if setup.device != "cuda":
        return Row(what, SKIPPED, "only CUDA tells of waits; the steps ran")
    counts = {place: places.count(place) / WAITED for place in dict.fromkeys(places)}
    figures = f"none in {2 * WAITED} steps"
    if counts or raised or notes:
        told = [f"{place} ({count:g} a step)" for place, count in counts.items()]
        figures = "waits at " + (some(told) or "no known place")
        figures += f"; raised: {raised}" if raised else ""
        figures += f"; notes: {some(notes)}" if notes else ""
    return Row(what, verdict(not counts and not raised and not notes), figures)


# --- what it finds ---


def alerts(setup: Setup) -> Rows:
    """An FP16 overflow at a known line."""
    subject = Subject(lambda: Planted(0), Planted.batch)
    path = setup.database()
    training = setup.training(subject, "fp16")
    with setup.watch(training, db=path, shadow="steps=0-0"):
        training.steps(2)
    found = rows_of(
        path, "SELECT kind, severity, operator, source, precision, cure FROM shadow_finding"
    )
    right = [
        each
        for each in found
        if each["kind"] == "range"
        and each["operator"] == "aten.mul.Tensor"
        and str(each["source"]).endswith(Planted.line())
    ]
    told = [f"{each['kind']} {each['operator']} at {_base(each['source'])}" for each in found]
    cure = json.loads(right[0]["cure"]) if right and right[0]["cure"] else {}
    figures = some(told) or "no finding"
    figures += f"; precision {right[0]['precision']}, cure {cure.get('what')}" if right else ""
    yield Row("shadow step", verdict(bool(right)), figures)

    path = setup.database()
    training = setup.training(Subject(lambda: Planted(3), Planted.batch), "fp16")
    with setup.watch(training, db=path, shadow="off"):
        training.steps(20)
    layers = rows_of(path, "SELECT name, source FROM layer WHERE type = 'operator'")
    right = [
        each
        for each in layers
        if "mul" in each["name"] and str(each["source"]).endswith(Planted.line())
    ]
    told = [f"{each['name']} at {_base(each['source'])}" for each in layers]
    raised = rows_of(path, "SELECT type, min(step) AS step FROM alert GROUP BY type")
    figures = (some(told) or "no operator") + "; alerts: "
    figures += some([f"{each['type']} at step {each['step']}" for each in raised]) or "none"
    yield Row("trace of the steps after an error", verdict(bool(right)), figures)


def _base(source: str | None) -> str:
    return os.path.basename(source or "no line")


@dataclass(frozen=True)
class Check:
    """`seconds`: what it may take on a device. `goal`: what its rows are held against."""

    run: Callable[[Setup], Iterable[Row]]
    title: str
    seconds: float
    goal: str = ""


def _compiled() -> dict[str, Check]:
    """Of compiled.py, where that is."""
    if importlib.util.find_spec("compiled") is None:
        return {}
    from compiled import compiled

    title = "Compiled models: what is watched of them, and what that costs"
    return {"compiled": Check(compiled, title, 120.0)}


# The most important first: where time runs out, the last are left out.
CHECKS: dict[str, Check] = {
    "kernels": Check(kernels, "The device kernels give the CPU's figures", 60.0),
    "sandbox": Check(
        sandbox, "CUDA starts in the sandbox", 120.0, "the sandbox starts CUDA, and ends a hog"
    ),
    "bits": Check(
        bits,
        "A watched training with shadow steps is the unwatched one, bit for bit",
        150.0,
        "the same bits",
    ),
    "syncs": Check(syncs, "Plain watched steps never wait for the device", 80.0, "no waits"),
    "overhead": Check(
        overhead,
        "What watching costs, beside other ways to watch",
        300.0,
        "watching: at most 1.01 of a step between samples, 1.03 at the interval of 100",
    ),
    "shadow": Check(
        shadow,
        "What a shadow step costs",
        220.0,
        "a shadow step: at most 8 plain ones, the first 2 s more",
    ),
    "launches": Check(
        launches,
        "Kernels that watching launches",
        50.0,
        "a step that is not sampled: at most 4 launches and one for 64 modules more",
    ),
    "host": Check(
        host,
        "The host's time a module",
        50.0,
        "a module and step: at most 3 us, 15 us in a sampled step",
    ),
    "memory": Check(
        memory, "Device memory", 110.0, "memory: at most 5 % more (and 64 MB), without shadow steps"
    ),
    "alerts": Check(
        alerts, "A planted FP16 overflow is found with its operator and its line", 30.0
    ),
    **_compiled(),
    "compile": Check(compiling, "torch.compile: training unchanged, and said so", 100.0),
    "diff": Check(
        comparing, "auto_diff on the device names what it names where the CPU stands in", 130.0
    ),
    "precision": Check(
        choosing, "choose_precision on the device keeps planted modules in FP32", 120.0
    ),
    "guard": Check(guarding, "PrecisionGuard keeps trainings on the device alive", 80.0),
}


def main() -> None:
    name, device = sys.argv[1:3]
    warnings.filterwarnings("ignore", message=".*lr_scheduler.*")
    if device == "cpu":
        torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for row in CHECKS[name].run(Setup(device, folder)):
            print(json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main()
