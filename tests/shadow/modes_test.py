"""Dispatch modes of the program: a shadow step and such a mode are never on together, and a step
without one is a shadow step again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from conftest import Mlp, batch, cross_entropy
from mpnanny import MixedPrecisionNanny
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from torch.utils.flop_counter import FlopCounterMode

STEPS = 6
WITH_MODE = 2  # the step


class Coarse(TorchDispatchMode):
    """Rounds what matrix products give, as those do that try a format out."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.addmm.default:
            return (result * 4).round() / 4
        return result


def _train(watch: Callable[[nn.Module], Any], mode: Callable[[], Any], blocks: bool) -> Any:
    torch.manual_seed(3)
    model = Mlp()
    descent = torch.optim.AdamW(model.parameters(), lr=1e-2)
    left = []
    with watch(model) as nanny:
        for step in range(STEPS):
            with nanny.step(step) if blocks and nanny else contextlib.nullcontext():
                descent.zero_grad()
                with mode() if step == WITH_MODE else contextlib.nullcontext() as on:
                    x, y = batch()
                    loss = cross_entropy(model(x), y)
                    loss.backward()
                descent.step()
            count = on.get_total_flops() if isinstance(on, FlopCounterMode) else 0
            left.append((loss.item(), count, [each.tolist() for each in model.parameters()]))
    assert _python_dispatch._get_current_dispatch_mode_stack() == []
    return left


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("mode", [partial(FlopCounterMode, display=False), Coarse])
def test_only_the_step_with_a_mode_is_no_shadow_step(db, database, mode, blocks):
    plain = _train(lambda _model: contextlib.nullcontext(), mode, blocks)
    watched = _train(
        lambda model: MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True), mode, blocks
    )
    assert plain == watched
    steps = [each["step"] for each in database().rows("SELECT step FROM shadow_step ORDER BY step")]
    assert [each for each in range(STEPS) if each not in steps] == [WITH_MODE]
    notes = json.loads(database().one("SELECT notes FROM run")["notes"] or "[]")
    assert notes == ["no shadow steps while a dispatch mode of the program is on"]
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
    severe = "SELECT * FROM shadow_finding WHERE severity != 'INFO'"
    assert database().rows(severe) == []


def _shadowed(db: str, loss_of: Callable[[nn.Module, Any, Any], torch.Tensor]) -> None:
    """Trains Mlp in blocks, every step of which is to be a shadow step."""
    torch.manual_seed(3)
    model = Mlp()
    descent = torch.optim.SGD(model.parameters(), lr=1e-2)
    with MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True) as nanny:
        for step in range(STEPS):
            with nanny.step(step):
                descent.zero_grad()
                loss_of(model, *batch()).backward()
                descent.step()


@pytest.mark.filterwarnings("error")
def test_fake_tensors_are_left_out_of_a_shadow_step(db, database):
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with FakeTensorMode(allow_non_fake_inputs=True):
            shape = torch.nn.functional.linear(torch.ones(16, 8), model.enter.weight).shape
            model.enter.weight.detach().mul(torch.rand(())).sum()
        assert shape[0] == 16
        return cross_entropy(model(x), y)

    _shadowed(db, loss_of)
    assert database().one("SELECT count(*) AS n FROM shadow_step")["n"] == STEPS
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
    assert database().rows("SELECT * FROM shadow_finding WHERE severity != 'INFO'") == []


def test_selective_checkpointing_is_no_mode_of_the_program(db, database):
    def policy(_context: Any, func: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
        saved = func is torch.ops.aten.addmm.default
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = partial(create_selective_checkpoint_contexts, policy)

    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(checkpoint(model, x, use_reentrant=False, context_fn=contexts), y)

    _shadowed(db, loss_of)
    assert database().one("SELECT count(*) AS n FROM shadow_step")["n"] == STEPS
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
    assert database().one("SELECT notes FROM run")["notes"] in (None, "[]")
