"""The tensors of the process that could follow a network's weights: its averages, and counters in
16 bits. A walk goes through all objects of the process, a million of them where large libraries
are imported; what it found can be read again without one.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, field

import torch
from torch import nn

from ..fp64.history import version_of
from ..model.samples import is_readable

LEAST = 16  # numbers of a tensor
MOST_TENSORS = 512
WRITES = 8  # of a tensor that is changed again and again
# Half a step of the format, relative.
STEP_OF = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


@dataclass(slots=True)
class Living:
    """Of shapes that parameters of a network have; no results with a gradient, and none that an
    optimizer trains.
    """

    narrow: list[torch.Tensor] = field(default_factory=list)  # of 16 bits; single numbers, too
    wide: list[torch.Tensor] = field(default_factory=list)  # of FP32
    written: list[torch.Tensor] = field(default_factory=list)  # of these, not by an optimizer


def walk(model: nn.Module) -> Living:
    """Of the whole process, without the network's own."""
    weights = list(model.parameters())
    shapes = {each.shape for each in weights}
    known = {id(each) for each in weights} | {id(each.grad) for each in weights}
    objects = gc.get_objects()
    plain = {torch.Tensor, nn.Parameter}
    tensors = [each for each in objects if type(each) in plain]
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, torch.optim.Optimizer)}
    optimizers = [each for each in objects if type(each) in kinds]
    del objects
    states: set[int] = set()
    for each in optimizers:
        known.update(id(one) for group in each.param_groups for one in group["params"])
        of_it = (one for one in each.state.values() if isinstance(one, dict))
        states.update(id(value) for one in of_it for value in one.values())
    found = Living()
    for each in tensors:
        if id(each) in known or not is_readable(each):
            continue
        is_single = each.numel() == 1 and each.dtype in STEP_OF
        if each.grad_fn is not None or (each.shape not in shapes and not is_single):
            continue
        if each.dtype is torch.float32:
            found.wide.append(each)
            is_written = version_of(each) >= WRITES and id(each) not in states
            if is_written and each.numel() >= LEAST and len(found.written) < MOST_TENSORS:
                found.written.append(each)
        elif each.dtype in STEP_OF and len(found.narrow) < MOST_TENSORS:
            found.narrow.append(each)
    return found
