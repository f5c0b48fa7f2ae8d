"""Where data meets what is trained: a batch, labels, masks. What is wrong there is learned from,
whatever the loss is.
"""

from __future__ import annotations

import torch

from ..fp64.call import Call
from ..fp64.dependencies import Dependencies

INPUT_ERROR = 0.2  # relative, L2


def feeds(call: Call, dependencies: Dependencies) -> None:
    """`call` is about to run. Data is what no parameter has had a part in: the output of a teacher,
    or of the model itself, is none.
    """
    if not torch.is_grad_enabled() or not any(each.held.requires_grad for each in call.inputs):
        return
    for each in call.inputs:
        if each.held.requires_grad or not INPUT_ERROR <= each.error < float("inf"):
            continue
        if each.origin is not None and not dependencies.is_of_leaves(each.held):
            each.origin.reached("input", "", each.error)
