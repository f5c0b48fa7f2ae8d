"""Runs a program of `programs/` in the torch that is installed, and says what came of it.

The programs are written for CUDA, as people write them. On the CPU they run with every `cuda` of
their text made `cpu`; with CUDA's autocast lists they run as they are, on fake CUDA tensors, which
have no values and no backward pass and go through the same dispatcher as real ones.
"""

from __future__ import annotations

import math
import pathlib
import re
import warnings
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

PROGRAMS = pathlib.Path(__file__).parent / "programs"


def source(name: str) -> str:
    return (PROGRAMS / f"{name}.py").read_text()


def in_fp32(text: str) -> str:
    """The same program with nothing in it that has 16 bits."""
    text = re.sub(r"\btorch\.(?:float16|bfloat16|half)\b", "torch.float32", text)
    return re.sub(r"\.(?:half|bfloat16)\(\)", ".float()", text)


def on_cpu(text: str) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    """What main() returned, and how far optimizers moved each of the tensors that they stepped."""
    return _run(text.replace("cuda", "cpu"))


def with_cuda_lists(text: str) -> None:
    """Runs the forward pass on fake CUDA tensors: no values, real dispatch of CUDA's autocast.

    Everything is made there, so that moves fall away: those would ask for a device.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: PLC0415

    # Without a device autocast("cuda") switches itself off, and what is tested is what it refuses.
    with (
        mock.patch("torch.cuda.is_available", return_value=True),
        mock.patch("torch.cuda.is_bf16_supported", return_value=True),
        FakeTensorMode(),
        torch.device("cuda"),
        _ForwardOnly(),
        torch.no_grad(),
    ):
        _run(re.sub(r"\.(?:to\(\"cuda\"\)|cuda\(\))", "", text))


def off(text: str, reference: str) -> float:
    """How far what came of the first program is from that of the second, in units of the second.

    Infinite where it is not finite. Positions and counts are compared as main() returns them,
    trainings by the way that their weights went.
    """
    (value, moved), (true_value, true_moved) = on_cpu(text), on_cpu(reference)
    got = [value] if value is not None else moved
    true = [true_value] if true_value is not None else true_moved
    assert got and len(got) == len(true)
    a, b = (torch.cat([each.double().flatten() for each in side]) for side in (got, true))
    assert b.isfinite().all() and b.norm() > 0
    away = ((a - b).norm() / b.norm()).item()
    return away if math.isfinite(away) else math.inf


def _run(text: str) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    starts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    add = torch.optim.Optimizer.add_param_group

    def add_and_remember(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> None:
        add(optimizer, group)
        for each in optimizer.param_groups[-1]["params"]:
            starts.setdefault(id(each), (each, each.detach().clone()))

    torch.optim.Optimizer.add_param_group = add_and_remember  # type: ignore[method-assign]
    space: dict[str, Any] = {"__name__": "program"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, "program.py", "exec"), space)
            value = space["main"]()
    finally:
        torch.optim.Optimizer.add_param_group = add  # type: ignore[method-assign]
    moved = [now.detach().double() - then.double() for now, then in starts.values()]
    return (value.detach() if isinstance(value, torch.Tensor) else None), moved


class _ForwardOnly(TorchFunctionMode):
    """Leaves weights as they come and without gradients: both would ask for a device."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        written = getattr(function, "__module__", "") == "torch.nn.init"
        if written or function is torch.Tensor.requires_grad_:
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))
