"""Turns measured candidates into a plan: which way, which units stay in which format, what it costs
and gains, and what else could be done. docs/choose_precision.md explains the fields.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..diff.answer import grown_json, number, shown_source
from ..programs.program import Program
from .candidates import Candidate, Question
from .effect import Effect
from .states import StateLoss
from .trial import Trial
from .units import Anatomy, Unit
from .whole_numbers import Changed

GOALS = ("balanced", "safest", "fastest", "smallest")
MOST_LAYERS = 200
# A layer whose largest value is so near the format's end (in powers of two) is named.
_NEAR_END = 3.0
_ENDS = {"fp16": 65504.0, "bf16": 3.39e38, "fp8": 3.39e38}


def best(candidates: Sequence[Candidate], goal: str) -> Candidate:
    """Of those that are established the one for `goal`; FP32 is always among them."""
    sound = [each for each in candidates if each.established]
    if goal == "safest":
        low = [each for each in sound if each.way.precision != "fp32"] or sound
        return min(low, key=lambda each: each.error.error)
    if goal == "smallest":
        return min(sound, key=lambda each: each.memory.total)
    if goal == "fastest":
        return min(sound, key=_slowness)
    # Balanced: what is faster than FP32 and needs no more care than it must: 16 bits before 8, BF16
    # before FP16 with its loss scale, weights in FP32.
    order = ("bf16-autocast", "fp16-autocast", "tf32", "bf16-weights", "fp8-linear", "fp32")
    return min(sound, key=lambda each: (_is_useless(each), order.index(each.way.name)))


def _is_useless(candidate: Candidate) -> bool:
    """Nothing of it is low any more."""
    return (
        candidate.way.precision != "fp32"
        and candidate.work.wide_share > 0.95
        and bool(candidate.islands)
    )


def _slowness(candidate: Candidate) -> tuple[float, int]:
    bits = {"fp8": 8, "fp16": 16, "bf16": 16, "tf32": 19, "fp32": 32}[candidate.way.precision]
    seconds = candidate.seconds
    return (math.inf if seconds is None else seconds, bits)


def plan_json(
    anatomy: Anatomy,
    candidates: list[Candidate],
    without: list[str],
    states: list[StateLoss],
    question: Question,
    goal: str,
    program: Program,
    trials: Mapping[str, Trial],
    own: Sequence[Changed],
) -> dict[str, Any]:
    """The answer, without code. `trials`: of the ways that were tried. `own`: whole numbers that
    the code changes in FP32 as well.
    """
    root = program.target.root
    chosen = best(candidates, goal)
    full = next(each for each in candidates if each.way.precision == "fp32")
    device = question.device
    answer: dict[str, Any] = {
        "verdict": _verdict(chosen, candidates),
        "target": program.target.name,
        "way": chosen.way.name,
        "goal": goal,
        "device": {
            "name": device.name,
            "title": device.title,
            "kind": device.kind,
            "capability": device.capability or None,
            "formats": {name: device.has(name) for name in ("fp16", "bf16", "tf32", "fp8")},
            "memory": device.memory,
            "notes": list(device.notes),
            "source": device.source or ("read from this machine" if device.read else ""),
        },
        "islands": [_island(anatomy.units[unit], chosen, root) for unit in chosen.islands],
    }
    if refuted := [way for way, trial in trials.items() if trial.refutes]:
        answer["refuted"] = refuted
    if own:
        answer["whole_numbers"] = [_changed(each, root) for each in own]
    if chosen.fp8_left_out:
        answer["fp8_left_out"] = chosen.fp8_left_out
    answer |= _figures(chosen, full)
    if chosen.scaling is not None:
        answer["scaler"] = {
            "init_scale": chosen.scaling.initial,
            "growth_interval": chosen.scaling.growth_interval,
            "gradient_absmax": number(chosen.scaling.gradient_absmax),
            "flushed_unscaled": number(chosen.scaling.flushed_unscaled),
            "flushed": number(chosen.scaling.flushed),
        }
    answer["states"] = [
        {
            "state": each.state,
            "format": each.format,
            "lost": number(each.lost),
            "keep_fp32": each.keep_fp32,
        }
        for each in states
    ]
    answer["layers"] = _layers(anatomy, chosen)[:MOST_LAYERS]
    answer["alternatives"] = [
        {
            "way": each.way.name,
            "good_for": [name for name in GOALS if best(candidates, name) is each],
            "islands": each.islands,
            "established": each.established,
            **_figures(each, full),
            **_against(each, trials, root),
        }
        for each in candidates
        if each is not chosen
    ]
    answer["not_on_device"] = without
    answer["limits"] = [f"not_followed:{anatomy.trouble}"] if anatomy.trouble else []
    if chosen.way.name in trials:
        answer["trial"] = trials[chosen.way.name].json()
    if device.kind != "cpu" and program.options.device == "cpu":
        answer["limits"].append("cpu_arithmetic")
    return answer


def _verdict(chosen: Candidate, candidates: list[Candidate]) -> str:
    """`safe`: as it is; `safe_with_islands`; `stay_fp32`: no lower format was established."""
    if chosen.way.precision == "fp32":
        low = [each for each in candidates if each.way.precision != "fp32"]
        return "stay_fp32" if low else "nothing_lower_on_device"
    return "safe_with_islands" if chosen.islands or chosen.fp8_left_out else "safe"


def _figures(candidate: Candidate, full: Candidate) -> dict[str, Any]:
    memory, all_memory = candidate.memory, full.memory.total
    figures: dict[str, Any] = {
        "error": _effect(candidate.error),
        "error_all_low": _effect(candidate.all_low),
        "tolerance": number(candidate.found.tolerance) if candidate.found else None,
        "fp32_operators": number(candidate.work.wide_share),
        "memory": {
            "weights": memory.weights,
            "copies": memory.copies,
            "gradients": memory.gradients,
            "optimizer": memory.states,
            "activations": memory.kept,
            "total": memory.total,
            "of_fp32": number(memory.total / all_memory) if all_memory else None,
        },
        "speedup_model": None,
    }
    if candidate.seconds and full.seconds:
        figures["speedup_model"] = number(full.seconds / candidate.seconds)
    return figures


def _effect(effect: Effect) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "output": number(effect.output),
        "loss": number(effect.loss),
        "gradient": number(effect.gradient),
        "worst_gradient": number(effect.worst_gradient),
        "worst_name": effect.worst_name,
    }
    if effect.nonfinite:
        shown["nonfinite"] = effect.nonfinite
    if effect.raised:
        shown["raised"] = effect.raised
    return shown


def _against(candidate: Candidate, trials: Mapping[str, Trial], root: str) -> dict[str, Any]:
    """What else was found of a plan that is not the chosen one."""
    shown: dict[str, Any] = {}
    if candidate.way.name in trials:
        shown["trial"] = trials[candidate.way.name].summary()
    if candidate.changed:
        shown["whole_numbers"] = [_changed(each, root) for each in candidate.changed]
    return shown


def _changed(changed: Changed, root: str) -> dict[str, Any]:
    found = changed.root
    shown: dict[str, Any] = {
        "op": found.site.operator,
        "module": found.site.module or "",
        "source": shown_source(found.site.source, root),
        "dtype": found.dtype,
        "share": number(found.share),
        "magnitude": number(found.magnitude),
    }
    if changed.grown is not None:
        shown["grows"] = grown_json(changed.grown, root)
    return shown


def _island(unit: Unit, chosen: Candidate, root: str) -> dict[str, Any]:
    found = chosen.found
    alone = found.alone.get(unit.name) if found else None
    needed = found.needed.get(unit.name) if found else None
    whole = chosen.whole.get(unit.name)
    shown: dict[str, Any] = {
        "module": unit.name,
        "kind": unit.kind,
        "format": "fp32",
        "alone": number(alone.error) if alone else None,
        "without_it": number(needed.error) if needed else None,
        "absmax": number(unit.absmax),
        "lines": [line for line, _ in unit.lines.most_common(5)],
    }
    if whole is not None:
        shown["whole_numbers"] = _changed(whole, root)
    return shown


def _layers(anatomy: Anatomy, chosen: Candidate) -> list[dict[str, Any]]:
    """The most sensitive first; without such a measurement in the order in which they run."""
    alone = chosen.found.alone if chosen.found else {}
    precision = chosen.way.precision
    end = _ENDS.get(precision)
    rows = []
    for name, unit in anatomy.units.items():
        wide = name in chosen.islands or precision in ("fp32", "tf32")
        low = "bf16" if name in chosen.fp8_left_out or unit.kind != "Linear" else "fp8"
        room = math.log2(end / unit.absmax) if end and 0 < unit.absmax < math.inf else None
        effect = alone.get(name)
        rows.append(
            {
                "module": name,
                "kind": unit.kind,
                "format": "fp32" if wide else (low if precision == "fp8" else precision),
                "alone": number(effect.error) if effect else None,
                "local": {each: number(error) for each, error in unit.local.items()},
                "absmax": number(unit.absmax),
                "gradient_absmax": number(unit.gradient_absmax),
                "room": number(room),
                "near_end": room is not None and room < _NEAR_END,
            }
        )
    if alone:
        rows.sort(key=lambda row: -alone[row["module"]].error if row["module"] in alone else 0.0)
    return rows
