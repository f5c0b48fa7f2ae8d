"""The answer of the quick look (modules.py), and of two captures."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import torch

from ..programs.policy import Policy, full_precision
from ..programs.problem import Problem
from ..programs.program import Attempt, Program, Region
from .modules import (
    ModuleRow,
    compare_captures,
    compare_outputs,
    first_bad,
    outputs_of,
    rows_json,
    verdict_of,
)


def quick_answer(program: Program, policy: Policy) -> dict[str, Any]:
    """Both runs of a model, forward and backward. Raises Problem."""
    began = time.perf_counter()
    with full_precision(program.options.device):
        full, full_gradients = _run(program, None, contextlib.nullcontext, 1.0)
    middle = time.perf_counter()
    low_dtype = policy.low if policy.name == "pure" else None
    with policy.installed():
        scale = program.options.loss_scale or 1.0
        low, low_gradients = _run(program, low_dtype, policy.region, scale)
    ended = time.perf_counter()
    rows = compare_outputs(full, low)
    gradients = compare_outputs(full_gradients, low_gradients)
    answer = _answer(rows, program.target.name)
    answer |= {
        "dtype": policy.precision,
        "policy": policy.name,
        "mode": "emulated" if policy.emulated else "native",
        "emulated": policy.emulated,
        "gradients": {
            "worst": [
                {"name": each.name, "error": each.error}
                for each in sorted(gradients, key=lambda each: -each.error)[:8]
            ]
        },
        "seconds": {"fp32": round(middle - began, 3), "low": round(ended - middle, 3)},
    }
    return answer


def captured_answer(first: str, second: str) -> dict[str, Any]:
    """Of two captures; the first is what the second is held against. Raises Problem."""
    return _answer(compare_captures(first, second), f"{first} and {second}")


def _answer(rows: list[ModuleRow], target: str) -> dict[str, Any]:
    answer: dict[str, Any] = {"verdict": verdict_of(rows), "target": target, "level": "modules"}
    bad = first_bad(rows)
    if bad is not None:
        answer["first_bad"] = {
            "op": "",
            "module": bad.name,
            "source": "",
            "kind": "range" if bad.nonfinite else "rounding",
            "what": "output",
            "dtype": bad.dtype,
            "shape": str(list(bad.shape)),
            "accumulated": rows_json([bad])[0]["accumulated"],
        }
    answer |= {"findings": [], "contributors": [], "keep_fp32": [], "layers": rows_json(rows)}
    answer["limits"] = ["operators_not_followed"]
    return answer


def _run(
    program: Program, low: torch.dtype | None, region: Region, scale: float
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    attempt: Attempt = program.attempt(low)
    module = attempt.module
    if module is None:
        raise Problem(
            f"{program.target.name} is no model, it has no modules.",
            "Leave out `level`: functions are looked at operator by operator.",
        )
    with outputs_of(module) as made:
        program.forward(attempt, region)
    if program.derives(attempt):
        program.backward(attempt, scale)
    gradients = {
        name: leaf.grad.detach() / scale for name, leaf in attempt.leaves if leaf.grad is not None
    }
    return made, gradients
