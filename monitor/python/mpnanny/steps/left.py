"""Steps that the training loop leaves without an update: `optimizer.zero_grad(); continue` where a
loss is not finite, or a batch is not wanted. What comes next is another step.

Two things show it, where no block marks the steps, and both need something that was not finite.
Gradients are zeroed after a pass and another pass follows: so does an attack or SAM, and thus it
counts only where most steps that end with an update are seen to be without it. Or a forward pass
gave what is not finite, and another one follows without a backward pass, where steps have one of
each. A finite batch that is left looks like an attack on it: it stays a part of the step that
follows.
"""

from __future__ import annotations

import math

from .by_hand import ByHand
from .reading import graph_task_id
from .step import OpenStep


class LeftSteps:
    """Of one run. Learns from the steps that end with an update."""

    def __init__(self, by_hand: ByHand) -> None:
        self._by_hand = by_hand
        self._without = 0  # of those steps, in which no pass followed upon zeroed gradients
        self._with = 0
        self._one_forward = False  # the newest one had a forward pass for each backward pass

    def updated(self, step: OpenStep) -> None:
        """The main optimizer has stepped in `step`."""
        if step.passes_after_zeroing:
            self._with += 1
        else:
            self._without += 1
        self._one_forward = step.forwards == step.backwards

    def zeroed(self, step: OpenStep) -> None:
        """The gradients were zeroed that an optimizer of the model uses."""
        if not step.in_closure and (step.forwards or step.backwards):
            step.zeroed_after = step.backwards

    def forward_begins(self, step: OpenStep) -> bool:
        """Whether `step` was left before the forward pass that begins now."""
        if step.explicit or step.in_closure or graph_task_id() != -1:
            return False
        step.left = self._passes_on(step) or self._broke_and_went_on(step)
        return step.left

    def backward_begins(self, step: OpenStep) -> bool:
        """Whether it was left before that backward pass, of whose forward pass nothing was heard (a
        compiled model).
        """
        if not step.zeroed_after or step.explicit or step.in_closure or graph_task_id() != -1:
            step.zeroed_after = None  # between the forward pass and its own backward pass
            return False
        step.left = self._passes_on(step)
        return step.left

    def block_ends(self, step: OpenStep) -> bool:
        """Whether the block of `step` was left before an update."""
        if not step.explicit or step.stepped or step.skipped or not (self._without or self._with):
            return False
        return step.zeroed_after is not None or (step.forwards > 0 and not step.backward_heard)

    def _passes_on(self, step: OpenStep) -> bool:
        if step.zeroed_after is None:
            return False
        step.zeroed_after = None
        if step.served or step.stepped:  # by gradients of this pass, as a generator's optimizer
            return False
        known = _is_bad(step) and self._without > self._with
        if not known:
            step.passes_after_zeroing = True
        return known

    def _broke_and_went_on(self, step: OpenStep) -> bool:
        single = self._one_forward and self._by_hand.per_step == 1
        return single and step.explained and not (step.backward_heard or step.uses_scaler)


def _is_bad(step: OpenStep) -> bool:
    """Whether something was met that is not finite."""
    loss = step.loss
    return step.explained or (isinstance(loss, float) and not math.isfinite(loss))
