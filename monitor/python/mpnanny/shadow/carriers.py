"""Whose memory it is that was not finite before the step began: a state (a weight, a buffer, a
moment, an average), which was spoilt by something earlier; data; or memory that was never written.
"""

from __future__ import annotations

import gc
from typing import Any

import torch
from torch import nn

from ..fp64.history import version_of

MOST_WRITES = 1  # to a batch on its way in


def owner(tensor: torch.Tensor) -> str:
    """What holds the memory of `tensor`, in words: "buffer running_var of BatchNorm1d"; "" where no
    module and no optimizer does. Looks at every object of the process.
    """
    memory = tensor.untyped_storage()._cdata
    for each in gc.get_objects():
        kind = type(each)  # isinstance() asks proxies, which work then
        if issubclass(kind, nn.Module):
            fields = vars(each)
            for word, where in (("parameter", "_parameters"), ("buffer", "_buffers")):
                for name, held in (fields.get(where) or {}).items():
                    if _lies_in(held, memory):
                        return f"{word} {name} of {kind.__name__}"
        elif issubclass(kind, torch.optim.Optimizer):
            for states in list(vars(each).get("state", {}).values()):
                for name, held in states.items() if isinstance(states, dict) else ():
                    if _lies_in(held, memory):
                        return f"{name} of {kind.__name__}"
    return ""


def is_state(tensor: torch.Tensor) -> bool:
    """Of a tensor that no module and no optimizer holds: whether it is trained, or was changed in
    place again and again, as an average in a list is.
    """
    return tensor.requires_grad or version_of(tensor) > MOST_WRITES


def _lies_in(held: Any, memory: int) -> bool:
    held = getattr(held, "_local_tensor", held)  # of a DTensor
    kind = type(held)
    if kind not in (torch.Tensor, nn.Parameter) and not issubclass(kind, nn.Parameter):
        return False
    try:
        return bool(held.untyped_storage()._cdata == memory)
    except Exception:  # half made, or without memory of its own
        return False
