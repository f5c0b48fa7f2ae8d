"""The quick look, module by module: outputs of both runs side by side, without following operators.
It tells between which modules the two runs part, not which operator or line it is.

Two captures, of two machines perhaps, are compared in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..base.safetensors import load, save, storable
from ..fp64.call import floats
from ..fp64.comparison import compare
from ..fp64.thresholds import AMPLIFICATION, WRONG
from ..programs.problem import Problem

ORDER = "order"  # in the metadata of a capture: names as they were made


@dataclass(slots=True)
class ModuleRow:
    """One value in both runs. `error`: of the second against the first, relative, L2 norm."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    error: float
    absmax: float
    nonfinite: int  # here, where the first is finite


@contextmanager
def outputs_of(model: nn.Module) -> Iterator[dict[str, torch.Tensor]]:
    """Fills in, while it is on, what each module gives: `name`, `name#2` at its second call,
    `name.1` for the second tensor of a result.
    """
    made: dict[str, torch.Tensor] = {}
    calls: dict[str, int] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            calls[name] = calls.get(name, 0) + 1
            call = name if calls[name] == 1 else f"{name}#{calls[name]}"
            for at, each in enumerate(floats(output)):
                made[call if at == 0 else f"{call}.{at}"] = each.detach().clone()

        return hook

    handles = [
        module.register_forward_hook(keep(name or "(model)"))
        for name, module in model.named_modules()
    ]
    try:
        yield made
    finally:
        for handle in handles:
            handle.remove()


def compare_outputs(
    full: Mapping[str, torch.Tensor], low: Mapping[str, torch.Tensor]
) -> list[ModuleRow]:
    """Rows of what is in both, in the order of `full`."""
    rows = []
    for name, reference in full.items():
        held = low.get(name)
        if held is None or held.shape != reference.shape or not held.numel():
            continue
        found = compare(held, reference.to(torch.float64))
        if found is None:
            continue
        dtype = str(held.dtype).removeprefix("torch.")
        rows.append(
            ModuleRow(name, dtype, tuple(held.shape), found.error, found.max_held, found.range)
        )
    return rows


def first_bad(rows: list[ModuleRow]) -> ModuleRow | None:
    """The first that is not finite, or so far off that the ones before do not explain it."""
    worst = 0.0
    for row in rows:
        if row.nonfinite:
            return row
        if row.error > WRONG and row.error > AMPLIFICATION * worst:
            return row
        worst = max(worst, row.error)
    return None


def verdict_of(rows: list[ModuleRow]) -> str:
    """broken, degraded, clean; not_established where there is nothing to compare."""
    if not rows:
        return "not_established"
    if any(row.nonfinite for row in rows):
        return "broken"
    bad = first_bad(rows) is not None or rows[-1].error > WRONG
    return "degraded" if bad else "clean"


def rows_json(rows: list[ModuleRow]) -> list[dict[str, Any]]:
    """As `layers` of the answer."""
    return [
        {
            "module": row.name,
            "dtype": row.dtype,
            "shape": list(row.shape),
            "accumulated": row.error if math.isfinite(row.error) else "inf",
            "absmax": row.absmax,
            "nonfinite": row.nonfinite,
        }
        for row in rows
    ]


# --- captures ---


def capture(model: nn.Module, sample: Any, path: str) -> int:
    """Runs `model` once on `sample` (a tensor, a tuple, a dict) and writes what each module gives
    to a safetensors file, which auto_diff compares with another one. Returns its bytes.
    """
    with torch.no_grad(), outputs_of(model) as made:
        if isinstance(sample, dict):
            model(**sample)
        else:
            model(*(sample if isinstance(sample, (tuple, list)) else (sample,)))
    tensors = {
        name: each.to("cpu").contiguous() for name, each in made.items() if storable(each.dtype)
    }
    return save(path, tensors, {ORDER: "\n".join(tensors)})


def compare_captures(first: str, second: str) -> list[ModuleRow]:
    """Of two files of capture() or of dump_on_error. Raises Problem."""
    held = []
    for path in (first, second):
        try:
            tensors, metadata = load(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Problem(
                f"{path} is no capture: {error}",
                "Write one with mpnanny.diff.capture(model, sample, path), or dump_on_error.",
            ) from error
        order = [name for name in str(metadata.get(ORDER, "")).split("\n") if name in tensors]
        held.append({name: tensors[name] for name in [*order, *sorted({*tensors} - {*order})]})
    full, low = (
        {name: each for name, each in one.items() if each.is_floating_point()} for one in held
    )
    if not {*full} & {*low}:
        raise Problem(
            f"{first} and {second} have no tensor in common.",
            f"The first holds {', '.join(list(full)[:5])}; the second {', '.join(list(low)[:5])}.",
        )
    return compare_outputs(full, low)
