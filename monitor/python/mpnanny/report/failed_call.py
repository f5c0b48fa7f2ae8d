"""The call that ended a training with an exception: the tensors that it was given.

Labels that are out of range end in an exception and not in a value that is not finite: what is kept
is the smallest and largest element of integer tensors, and the shapes of the tensors beside them.
"""

from __future__ import annotations

import os
import traceback
from types import FrameType, TracebackType
from typing import Any

import torch

from ..base.record import Record
from ..operators.as_called import run_as_called

MOST_TENSORS = 8
MOST_FRAMES = 200
MOST_TEXT = 300  # characters of the exception's words
_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep


def failed_call(error: BaseException, record: Record) -> dict[str, Any]:
    """What is known of it: the innermost function on the stack that holds an integer tensor counts,
    and the innermost line outside of torch.
    """
    kind = type(error).__name__
    facts: dict[str, Any] = {"error": record.type(type(error)) if record.minimal else kind}
    if not record.minimal:
        facts["text"] = str(error)[:MOST_TEXT]
    frames = _frames(error.__traceback__)
    for frame, line in frames:
        file = frame.f_code.co_filename
        if not file.startswith((_TORCH, _OWN)):
            facts["source"] = record.source(f"{file}:{line}")
            break
    if any(frame.f_code is run_as_called.__code__ for frame, _ in frames):
        facts["through_mode"] = True  # raised in an operator that a mode of ours had called
    for frame, _ in frames:
        held = {
            name: value
            for name, value in list(frame.f_locals.items())
            if type(value) in (torch.Tensor, torch.nn.Parameter)
        }
        if any(_is_integer(each) for each in held.values()):
            facts["function"] = record.layer(frame.f_code.co_name)
            tensors = list(held.items())[:MOST_TENSORS]
            facts["tensors"] = [_figures(record.layer(name), each) for name, each in tensors]
            break
    return facts


def _frames(trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    """The innermost first."""
    return list(reversed(list(traceback.walk_tb(trace))[-MOST_FRAMES:]))


def _is_integer(tensor: torch.Tensor) -> bool:
    kind = tensor.dtype
    return not (kind.is_floating_point or kind.is_complex or kind == torch.bool)


def _figures(name: str, tensor: torch.Tensor) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": name,
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
    }
    # A device that has failed answers no more.
    if _is_integer(tensor) and tensor.device.type == "cpu" and tensor.numel():
        with torch.no_grad():
            facts["min"], facts["max"] = int(tensor.min()), int(tensor.max())
    return facts
