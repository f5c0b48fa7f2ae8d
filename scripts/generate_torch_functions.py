#!/usr/bin/env python3
"""Writes engines/check/data/torch_functions.json: the dtype that torch's functions return.

data/autocast_ops.json has what autocast knows, operator by operator; most functions that people
call are made of several (F.normalize is a norm, a clamp and a division). Here each public function
and method is called on fake tensors (no data, no GPU), in FP16 and in FP32, without autocast and
under that of CUDA and of the CPU, and what comes out is written down:

    keep   the dtype of its inputs        lower  autocast's 16 bits
    fp32   FP32                           index  integers or booleans

    cd engines/check/data
    python ../../../scripts/generate_torch_functions.py > torch_functions.json
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

LOW = torch.float16
MODES = ("off", "CUDA", "CPU")
MODULES = (torch, functional, torch.special, torch.linalg)
# What changes the dtype by its arguments, makes tensors, or is no computation.
SKIPPED = set(
    """
    to type type_as half float double bfloat16 int long bool view_as_complex new_zeros
    new_ones new_empty new_full new_tensor apply_ map_ set_ resize_ requires_grad_
    share_memory_ storage untyped_storage backward register_hook compile load save vmap
    set_default_dtype set_default_device set_default_tensor_type manual_seed seed zeros ones
    empty full rand randn eye arange linspace tensor as_tensor from_numpy scalar_tensor
    logspace get_device is_tensor is_storage
    """.split()
)


def tensor(dtype: torch.dtype, device: str, *shape: int) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device=device)


def attempts(dtype: torch.dtype, device: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments that some function may take, the simplest first."""
    square = tensor(dtype, device, 4, 4)
    yield ("ij,jk->ik", square, square), {}
    for shape in ((4, 4), (4,), (2, 4, 4), (2, 4, 8, 8), (2, 4, 4, 8, 8)):
        x = tensor(dtype, device, *shape)
        y = tensor(dtype, device, *shape)
        mask = torch.empty(*shape, dtype=torch.bool, device=device)
        index = torch.zeros(*shape, dtype=torch.int64, device=device)
        vector = torch.zeros(shape[0], dtype=torch.int64, device=device)
        for rest in (
            (), (y,), (y, y), (1,), (0, 1), (y, y, y), (2.0,), (mask, 0.0), (0, vector), (0, index),
            (0, index, y), (0, vector, y), (vector,), (shape,), (mask,), (mask, y), (0, 0),
            (0, 0, 1), (mask, y, y), ((0, 1),), (2,), (2, 0), ((1, 1),), ([1, 1], [0, 1]),
            ((2, 2), 2), ("mean",), (4, y),
            (4, y, y), (0.5, 1), (None, None), (y, None), (0, 1, 2), (index, 1), (index, y),
        ):  # fmt: skip
            yield (x, *rest), {}
        yield ([x, y],), {}
        yield ((x, y), 0), {}
        yield (x,), {"dim": -1}
        yield (x,), {"scale_factor": 2.0}
        yield (vector, x), {}
        yield (x, tensor(dtype, device, 4)), {}
        yield (x, tensor(dtype, device, 2, 4, 4, 2)), {"align_corners": False}
        yield (x, tensor(dtype, device, 4), tensor(dtype, device, 4)), {}
        yield (x, 1, 1), {}


def first(value: Any) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (list, tuple)):
        for item in value:
            found = first(item)
            if found is not None:
                return found
    return None


class Autocast:
    """torch.autocast switches itself off where the device is missing; this does not."""

    def __init__(self, mode: str) -> None:
        self.device = {"off": None, "CUDA": "cuda", "CPU": "cpu"}[mode]

    def __enter__(self) -> None:
        if self.device:
            torch.set_autocast_dtype(self.device, LOW)
            torch.set_autocast_enabled(self.device, True)

    def __exit__(self, *_: object) -> None:
        if self.device:
            torch.set_autocast_enabled(self.device, False)
            torch.clear_autocast_cache()


def called(function: Callable[..., Any], mode: str, dtype: torch.dtype, number: int | None) -> Any:
    """The dtype of the first tensor that comes out and the number of the attempt that went well."""
    device = "cpu" if mode == "CPU" else "cuda"
    with FakeTensorMode(), torch.no_grad():
        for index, (args, kwargs) in enumerate(attempts(dtype, device)):
            if number is not None and index != number:
                continue
            try:
                with Autocast(mode):
                    out = first(function(*args, **kwargs))
            except Exception as error:  # noqa: BLE001
                if "unsafe to autocast" in str(error):
                    return "banned", index
                continue
            if out is not None:
                return out.dtype, index
    return None, None


def policy(low: Any, full: Any) -> str | None:
    if "banned" in (low, full):
        return "banned"
    if low is None or full is None:
        return None
    pair = (low, full)
    if not low.is_floating_point and not low.is_complex:
        return "index"
    return {
        (LOW, torch.float32): "keep",
        (LOW, LOW): "lower",
        (torch.float32, torch.float32): "fp32",
    }.get(pair)


def measure(function: Callable[..., Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    # One attempt for all modes, so that they are compared on the same arguments.
    _, number = called(function, "off", torch.float32, None)
    if number is None:
        _, number = called(function, "CUDA", torch.float32, None)
    if number is None:
        return found
    for mode in MODES:
        low, _ = called(function, mode, LOW, number)
        full, _ = called(function, mode, torch.float32, number)
        named = policy(low, full)
        if named:
            found[mode] = named
    return found


def functions() -> dict[str, list[Callable[..., Any]]]:
    named: dict[str, list[Callable[..., Any]]] = {}
    for module in MODULES:
        for name in dir(module):
            value = getattr(module, name)
            if isinstance(value, type) or not callable(value) or name in SKIPPED:
                continue
            if name[0].isupper() or name.startswith(("_", "is_", "set_", "get_")):
                continue
            named.setdefault(name, []).append(value)
    for name in dir(torch.Tensor):
        if name.startswith(("_", "is_", "set_", "get_")) or name.endswith("_") or name in SKIPPED:
            continue
        value = getattr(torch.Tensor, name)
        if callable(value):
            named.setdefault(name, []).append(value)
    return named


def main() -> int:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)  # of attempts that fail, which is most
    table: dict[str, dict[str, str]] = {}
    for name, group in sorted(functions().items()):
        for function in group:
            found = measure(function)
            known = table.setdefault(name, found)
            for mode in MODES:
                # Two functions of one name that differ are not told apart by it.
                if mode in found and mode in known and found[mode] != known[mode]:
                    print(f"{name}: {known} and {found}", file=sys.stderr)
            if len(found) > len(known):
                table[name] = found
    # One line for all functions that behave alike: "off CUDA CPU" and their names.
    alike: dict[str, list[str]] = {}
    for name, found in table.items():
        if found.get("off") or found.get("CUDA"):
            key = " ".join(found.get(mode, "unknown") for mode in MODES)
            alike.setdefault(key, []).append(name)
    version = torch.__version__.partition("+")[0]
    print(json.dumps({"torch": version, "modes": MODES, "functions": alike}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
