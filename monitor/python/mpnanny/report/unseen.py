"""What of a model a run has not seen, and why, for its notes."""

from __future__ import annotations

from ..model.optimizers import Optimizers
from ..model.watched import some_of
from ..operators.modes import compiles
from ..steps.context import RunContext


def not_seen(run: RunContext, optimizers: Optimizers) -> list[str]:
    """A sentence for each reason, so far."""
    texts = []
    core, state = run.core, run.state
    unseen = core.unseen() if state.steps_done else []
    elsewhere = [
        run.record.layer(run.names.name(each) or "") for each in sorted(state.thread.elsewhere)
    ]
    if elsewhere:
        texts.append(
            f"{len(elsewhere)} watched modules also ran in other threads than the one that has"
            " the step (replicas of DataParallel, a pipeline, an evaluation with gradients):"
            f" what they gave there was not read: {some_of(elsewhere)}"
        )
    unseen = [each for each in unseen if each not in elsewhere]
    if unseen:
        why = "torch.compile runs them, without their hooks" if compiles() else ""
        why = why or "only their weights are used, or nothing"
        texts.append(
            f"{len(unseen)} watched modules never ran in training ({why}): {some_of(unseen)}"
        )
    if optimizers.main is None and state.steps_done and not state.blocks_used:
        texts.append(
            "no optimizer of torch's updates the weights: steps were counted by the gradients"
            " that were taken; learning rate, optimizer state and updates are not known"
        )
    return texts + [f"not readable: {reason}" for reason in core.unreadable()]
