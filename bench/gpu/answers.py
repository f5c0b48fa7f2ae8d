"""The checks of scripts/gpu that the tools answer on a device what they answer on a CPU that stands
in for it: auto_diff, choose_precision, and PrecisionGuard in a training.
"""

from __future__ import annotations

import importlib.util
import pathlib
import statistics
import sys
import time
from typing import Any

import mpnanny
import torch
from mpnanny.diff import Problem, diff_request
from mpnanny.precision import choose_precision
from mpnanny.precision.devices import this_machine
from setup import SKIPPED, Row, Rows, Setup, some, verdict

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"
sys.path.append(str(TESTS / "monitor"))  # its models


def _load(path: str) -> Any:
    """A module of the tests; two folders have files of one name."""
    name = path.replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, TESTS / f"{path}.py")
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- auto_diff ---


def comparing(setup: Setup) -> Rows:
    """Planted faults and healthy models, where they run and where the CPU stands in."""
    families, planted = _load("auto_diff/families"), _load("auto_diff/planted")
    file = TESTS / "auto_diff" / "planted.py"
    named: dict[str, list[str]] = {"right": [], "differ": [], "raised": []}
    lines = file.read_text(encoding="utf-8").splitlines()
    cases = list(planted.CASES.items())[: 3 if setup.small else None]
    for name, (inputs, dtype, policy, backward) in cases:
        request = {"input": inputs, "dtype": dtype, "policy": policy, "backward": backward}
        # The one that makes a model itself makes it on the CPU.
        kind, made = ("model", "Scaled") if name == "overflowing_model" else ("function", name)
        request[kind] = f"{file}:{made}"
        device = "cpu" if policy == "cpu-autocast" else setup.device
        try:
            answer = diff_request({**request, "device": device})
        except Problem as problem:
            named["raised"].append(f"{name}: {problem.message}")
            continue
        place = str((answer.get("first_bad") or {}).get("source", ""))
        line = int(place.rpartition(":")[2] or 0)
        right = bool(line) and "# bad" in lines[line - 1]
        named["right" if right else "differ"].append(f"{name} ({answer['verdict']}, {place[-14:]})")
    good = not named["differ"] and not named["raised"]
    figures = f"{len(named['right'])} of {len(cases)} named at a labelled line"
    figures += _lists(differ=named["differ"], raised=named["raised"])
    yield Row("planted faults", verdict(good), figures)

    flagged, raised = [], []
    makers = list(families.FAMILIES.items())[: 2 if setup.small else None]
    for at, (name, (make, words)) in enumerate(makers):
        dtype = (torch.float16, torch.bfloat16)[at % 2]
        torch.manual_seed(3)
        model = make().to(setup.device)
        sample = tuple(each.to(setup.device) for each in _inputs(words))
        try:
            answer = mpnanny.auto_diff(model, sample, dtype)
        except Problem as problem:
            raised.append(f"{name} {dtype}: {problem.message}")
            continue
        if answer["verdict"] != "clean":
            first = answer.get("first_bad") or {}
            flagged.append(f"{name} {dtype}: {first.get('op')} {first.get('source')}")
    figures = f"{len(makers) - len(flagged) - len(raised)} of {len(makers)} clean"
    figures += _lists(flagged=flagged, raised=raised)
    yield Row("healthy models", verdict(not flagged and not raised), figures)


def _lists(**lists: list[str]) -> str:
    return "".join(f"; {word}: {some(each)}" for word, each in lists.items() if each)


def _inputs(words: list[str]) -> list[Any]:
    from mpnanny.programs.specification import make_inputs

    return [each.value for each in make_inputs(words, 0)]


# --- choose_precision ---


def choosing(setup: Setup) -> Rows:
    """Planted modules are kept in FP32, healthy models have no islands."""
    families, planted = _load("auto_diff/families"), _load("precision/planted")
    machine = this_machine()
    known = ", ".join(f"{name} {peak / 1e12:.0f}" for name, peak in machine.peaks.items() if peak)
    yield Row("the device", verdict(machine.read), f"{machine.title}; TFLOP/s by table: {known}")
    right, missed, raised = [], [], []
    drawn = planted.draw(families.FAMILIES)[:: 14 if setup.small else 2]
    began = time.monotonic()
    for each in drawn:
        make, words = families.FAMILIES[each.family]
        torch.manual_seed(3)
        model = each.plant(make()).to(setup.device)
        sample = tuple(one.to(setup.device) for one in _inputs(words))
        label = f"{each.family} {each.kind} {each.way}"
        try:
            answer = choose_precision(model, sample, device="h100", ways=[each.way], seconds=20)
        except Problem as problem:
            raised.append(f"{label}: {problem.message}")
            continue
        islands, harmless = _of_way(answer, each.way)
        fits = each.place in islands and len(islands) <= 2
        (right if fits or (harmless and not islands) else missed).append(f"{label}: {islands}")
    figures = f"{len(right)} of {len(drawn)} right, {time.monotonic() - began:.0f} s"
    figures += _lists(missed=missed, raised=raised)
    yield Row("planted modules", verdict(len(missed) <= 1 and not raised), figures)

    islands, raised, count = [], [], 0
    for name, (make, words) in list(families.FAMILIES.items())[:: 8 if setup.small else 2]:
        torch.manual_seed(3)
        model = make().to(setup.device)
        sample = tuple(one.to(setup.device) for one in _inputs(words))
        for way in ("fp16-autocast", "bf16-autocast", "bf16-weights"):
            count += 1
            try:
                answer = choose_precision(model, sample, device="h100", ways=[way], seconds=20)
            except Problem as problem:
                raised.append(f"{name} {way}: {problem.message}")
                continue
            if _of_way(answer, way)[0]:
                islands.append(f"{name} {way}: {_of_way(answer, way)[0]}")
    figures = f"{count - len(islands) - len(raised)} of {count} without islands"
    figures += _lists(islands=islands, raised=raised)
    yield Row("healthy models", verdict(not islands and not raised), figures)


def _of_way(answer: dict[str, Any], way: str) -> tuple[list[str], bool]:
    """Islands of the way, and whether the model as it is in the format is within the tolerance."""
    if answer["way"] == way:
        chosen, names = answer, [each["module"] for each in answer["islands"]]
    else:
        chosen = next(each for each in answer["alternatives"] if each["way"] == way)
        names = list(chosen["islands"])
    low = chosen.get("error_all_low") or {}
    figures = [low.get(key) for key in ("output", "gradient")]
    limit = chosen.get("tolerance") or 0.0
    return names, all(isinstance(each, float) and each <= limit for each in figures)


# --- PrecisionGuard ---

FAIL_ON_CUDA = (
    "a negative variance",
    "attention that is not scaled",
    "a gain that grows",
    "batches that do not fit",
    "the root of squares that became zero",
)


def guarding(setup: Setup) -> Rows:
    """Trainings that fail under autocast end within 2 % of FP32, or as near as FP32 itself when its
    first weights are moved by 2^-11; healthy ones keep their bits.
    """
    trainings = _load("guard/trainings")
    torch.backends.cuda.matmul.allow_tf32 = False
    where = {"device": setup.device, "steps": 20 if setup.small else trainings.STEPS}
    # The others do not fail on CUDA: what goes wrong in them is on its autocast's FP32 list.
    chosen = [
        (name, trainings.FAILING[name]) for name in FAIL_ON_CUDA[: 1 if setup.small else None]
    ]
    limit = 0.05 if setup.small else 0.02
    for name, of in chosen:
        _, exact_model, _, _ = trainings.train(of, low=False, guarded=False, **where)
        _, low_model, _, _ = trainings.train(of, low=True, guarded=False, **where)
        _, kept_model, kept, _ = trainings.train(of, low=True, guarded=True, **where)
        _, moved_model, _, _ = trainings.train(
            of, low=False, guarded=False, moved=2.0**-11, **where
        )
        exact, low, now, moved = (
            trainings.held_out(each, of, setup.device)
            for each in (exact_model, low_model, kept_model, moved_model)
        )
        apart, noise = (now - exact) / exact, abs(moved - exact) / exact
        yield Row(
            name,
            verdict(apart <= max(limit, noise)),
            f"FP32 {exact:.4f} (moved: {noise:.2%} away), autocast {low:.4f}, guarded {apart:+.2%};"
            f" islands {', '.join(kept.islands) or 'none'}; {len(kept.changes)} changes",
        )
    for name, of in trainings.HEALTHY.items():
        plain, plain_model, _, _ = trainings.train(of, low=True, guarded=False, **where)
        again, _, _, _ = trainings.train(of, low=True, guarded=False, **where)
        if plain != again:
            yield Row(f"healthy, {name}", SKIPPED, "unguarded runs differ from each other")
            continue
        kept, kept_model, one, _ = trainings.train(of, low=True, guarded=True, **where)
        same = kept == plain and all(
            torch.equal(a, b)
            for a, b in zip(
                plain_model.state_dict().values(), kept_model.state_dict().values(), strict=True
            )
        )
        yield Row(
            f"healthy, {name}",
            verdict(same and not one.changes),
            f"{'the same bits' if same else 'other bits'}, {len(one.changes)} changes,"
            f" median loss of the last ten {statistics.median(kept[-10:]):.4f}",
        )
