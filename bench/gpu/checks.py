"""The checks of scripts/gpu, each a process of its own: checks.py NAME DEVICE prints one JSON
line for every row as soon as it is known.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import mpnanny
import torch
from answers import choosing, comparing, guarding
from bits import bits, compiling
from kernels import kernels
from setup import PASS, PRECISIONS, SKIPPED, Planted, Row, Rows, Setup, rows_of, some, verdict
from trainings import Subject, Training
from turns import TURN, medians, pairs

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


# --- what it costs ---


def overhead(setup: Setup) -> Rows:
    """Blocks of steps of a watched copy and of an unwatched one, in turns."""
    rounds = 2 if setup.small else 9
    for name, subject in setup.subjects(large=True).items():
        for precision in PRECISIONS:
            ratios = {}
            plain = setup.training(subject, precision)
            plain.steps(5)
            once = plain.steps(3).wall / 3
            block = 2 if setup.small else max(3, min(20, round(0.2 / once)))
            for interval in (10**9, 1):
                watched = setup.training(subject, precision)
                nanny = setup.watch(watched, trace_interval=interval, shadow="off")
                watched.steps(5)
                made = []
                for at in range(rounds):
                    order = (plain, watched) if at % 2 == 0 else (watched, plain)
                    wall = {id(each): each.steps(block).wall for each in order}
                    made.append((wall[id(watched)] / wall[id(plain)], wall[id(plain)] / block))
                nanny.close()
                ratios[interval] = statistics.median(ratio for ratio, _ in made)
                step = statistics.median(seconds for _, seconds in made)
                del watched, nanny
            usual = (99 * ratios[10**9] + ratios[1]) / 100
            yield Row(
                f"{name}, {precision}",
                verdict(usual <= 1.01) if not setup.small else PASS,
                f"{1e3 * step:.2f} ms a step; ratio {ratios[10**9]:.4f} between samples,"
                f" {ratios[1]:.4f} sampled every step, {usual:.4f} at the interval of 100"
                + ("" if setup.small else " (goal 1.01)"),
            )


def shadow(setup: Setup) -> Rows:
    """A shadow step over a plain one."""
    for name, subject in setup.subjects(large=True).items():
        for precision in PRECISIONS:
            plain, shadowed = (setup.training(subject, precision) for _ in range(2))
            with setup.watch(plain, shadow="off", trace_interval=10**9):
                plain.steps(2 * TURN)
                path = setup.database()
                nanny = setup.watch(shadowed, shadow=f"every={TURN}", trace_interval=10**9, db=path)
                shadowed.steps(TURN + 2)
                figures = medians(pairs(plain, shadowed, 2 if setup.small else 5))
                nanny.close()
            row = rows_of(
                path,
                "SELECT count(*) AS steps, max(operators) AS operators, max(compared) AS compared,"
                " max(restarted) AS restarted, max(memory) AS memory FROM shadow_step",
            )[0]
            told = f"ratio {figures['ratio']} ({figures['range'][0]} to {figures['range'][1]}"
            told += "; goal 6)" if not setup.small else ")"
            told += f", a plain step {figures['plain_ms']} ms; forward {figures['forward']},"
            told += f" backward {figures['backward']}, optimizer {figures['optimizer']};"
            told += f" {row['operators']} operators, {row['compared']} results compared,"
            told += f" {row['restarted']} restarts, {(row['memory'] or 0) >> 20} MB of references"
            good = bool(row["compared"]) and (setup.small or figures["ratio"] <= 6)
            yield Row(f"{name}, {precision}", verdict(good), told)
            del plain, shadowed, nanny


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


# --- memory ---


def memory(setup: Setup) -> Rows:
    """The most bytes that torch had allocated on the device."""
    for name, subject in setup.subjects(large=True).items():
        peaks: dict[str, int] = {}
        references = 0
        for mode in ("unwatched", "off", "every=3"):
            gc.collect()
            before = torch.cuda.memory_allocated() if setup.device == "cuda" else 0
            training = setup.training(subject, "fp16")
            path = setup.database()
            nanny = setup.watch(training, db=path, shadow=mode) if mode != "unwatched" else None
            if setup.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            training.steps(5)
            if setup.device == "cuda":
                peaks[mode] = torch.cuda.max_memory_allocated() - before
            if nanny is not None:
                nanny.close()
                found = rows_of(path, "SELECT max(memory) AS most FROM shadow_step")[0]["most"]
                references = max(references, found or 0)
            del training, nanny
        told = [f"{mode} {peak / 2**20:.0f} MB" for mode, peak in peaks.items()]
        figures = ", ".join([*told, f"references {references / 2**20:.0f} MB"])
        if setup.device != "cuda":
            yield Row(f"{name}, fp16", SKIPPED, f"only a device counts its memory; {figures}")
            continue
        watching = peaks["off"] <= 1.05 * peaks["unwatched"] + (64 << 20)
        yield Row(f"{name}, fp16", verdict(watching and references > 0), figures)


CHECKS: dict[str, tuple[Callable[[Setup], Iterable[Row]], str]] = {
    "kernels": (kernels, "The device kernels give the CPU's figures"),
    "bits": (bits, "A watched training with shadow steps is the unwatched one, bit for bit"),
    "alerts": (alerts, "A planted FP16 overflow is found with its operator and its line"),
    "syncs": (syncs, "Plain watched steps never wait for the device"),
    "shadow": (shadow, "What a shadow step costs"),
    "overhead": (overhead, "What watching costs"),
    "compile": (compiling, "torch.compile: training unchanged, and said so"),
    "memory": (memory, "Device memory"),
    "diff": (comparing, "auto_diff on the device names what it names where the CPU stands in"),
    "precision": (choosing, "choose_precision on the device keeps planted modules in FP32"),
    "guard": (guarding, "PrecisionGuard keeps trainings on the device alive"),
}


def main() -> None:
    name, device = sys.argv[1:3]
    warnings.filterwarnings("ignore", message=".*lr_scheduler.*")
    if device == "cpu":
        torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for row in CHECKS[name][0](Setup(device, folder)):
            print(json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main()
