"""What holds a weight's lost change, and what only looks like it."""

from __future__ import annotations

import json

import pytest
import torch
from finds import Finds, inputs
from mpnanny import MixedPrecisionNanny
from torch import nn

RATE = 1e-4  # of gradients of about 1: changes under half an ulp of weights of 0.1 and more


def _model() -> nn.Module:
    model = nn.Linear(8, 32).bfloat16()
    with torch.no_grad():
        model.weight.copy_(1 + torch.rand(32, 8))
        model.bias.copy_(1 + torch.rand(32))
    return model


def _lost(found: Finds) -> list[dict]:
    return [each for each in found.severe if each["kind"] == "lost_change"]


def _loss(model: nn.Module):
    return lambda _step: model(inputs().bfloat16()).float().square().mean()


def test_a_temporary_with_the_exact_value_is_no_master_copy(train):
    """It lives until the loop comes round, and nobody reads it again."""
    model = _model()

    @torch.no_grad()
    def update() -> None:
        for each in model.parameters():
            wide = each.float() - RATE * each.grad.float()
            each.copy_(wide)

    (lost,) = _lost(train(model, _loss(model), 8, update=update))
    assert lost["line"] == "each.copy_(wide)"


def test_memory_that_each_step_fills_anew_is_no_master_copy(train):
    model = _model()
    wide = [torch.zeros(each.shape) for each in model.parameters()]

    @torch.no_grad()
    def update() -> None:
        for each, exact in zip(model.parameters(), wide, strict=True):
            exact.copy_(each)
            exact.add_(each.grad.float(), alpha=-RATE)
            each.copy_(exact)

    (lost,) = _lost(train(model, _loss(model), 8, update=update))
    assert lost["line"] == "each.copy_(exact)"


def test_new_temporaries_that_outlive_the_step_are_none_either(train):
    model = _model()
    kept: list[torch.Tensor] = []

    @torch.no_grad()
    def update() -> None:
        kept[:] = [each.float() - RATE * each.grad.float() for each in model.parameters()]
        for each, exact in zip(model.parameters(), kept, strict=True):
            each.copy_(exact)

    (lost,) = _lost(train(model, _loss(model), 8, update=update))
    assert lost["line"] == "each.copy_(exact)"


def test_one_flat_master_copy_loses_nothing(train):
    model = _model()
    flat = torch.cat([each.detach().float().flatten() for each in model.parameters()])

    @torch.no_grad()
    def update() -> None:
        flat.sub_(torch.cat([each.grad.float().flatten() for each in model.parameters()]) * RATE)
        at = 0
        for each in model.parameters():
            each.copy_(flat[at : at + each.numel()].view_as(each))
            at += each.numel()

    assert _lost(train(model, _loss(model), 8, update=update)) == []


def test_the_master_copy_of_a_single_number_loses_nothing(train):
    model = nn.Linear(8, 1).bfloat16()
    with torch.no_grad():
        model.bias.fill_(1.5)
    masters = [each.detach().float() for each in model.parameters()]

    @torch.no_grad()
    def update() -> None:
        for each, master in zip(model.parameters(), masters, strict=True):
            master.sub_(each.grad.float(), alpha=RATE)
            each.copy_(master)

    assert _lost(train(model, _loss(model), 8, update=update)) == []


class _Faint(nn.Module):
    """Nine tenths of its gradient are missing: 0.9 gets lost beside 256 in BF16."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = 1 + torch.rand(32, 8)
        self.w = nn.Parameter(self.wide.bfloat16())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w * ((x.bfloat16() + 256) - 256 + 0.1)


@torch.no_grad()
def _master_step(model: _Faint) -> None:
    model.wide.sub_(model.w.grad.float(), alpha=4e-3)
    model.w.copy_(model.wide)


def test_a_copy_of_a_master_whose_gradient_is_wrong_loses_nothing(train):
    """The master is far from where it should be, and the copy is what is nearest to it."""
    model = _Faint()
    found = train(
        model,
        lambda _: model(torch.full((8,), 0.9)).float().sum(),
        8,
        update=lambda: _master_step(model),
    )
    assert _lost(found) == []
    assert found.severe, "the gradient that is wrong is reported"


def test_a_master_that_gets_the_rounded_value_back_holds_nothing(train):
    model = _Faint()

    @torch.no_grad()
    def update() -> None:
        _master_step(model)
        model.wide.copy_(model.w)

    found = train(model, lambda _: model(torch.full((8,), 0.9)).float().sum(), 8, update=update)
    (lost,) = _lost(found)
    assert lost["line"] == "model.w.copy_(model.wide)"


def test_a_counter_is_not_excused_by_a_number_nearby(train):
    model = nn.Linear(8, 1)
    count = torch.tensor(256.0, dtype=torch.bfloat16)
    nearby = torch.tensor(257.0)

    @torch.no_grad()
    def update() -> None:
        count.add_(1)
        nearby.mul_(1.0)
        for each in model.parameters():
            each.sub_(each.grad * 1e-3 * nearby / 257)

    found = train(model, lambda _: model(inputs()).square().mean(), 8, update=update)
    (lost,) = _lost(found)
    assert lost["line"] == "count.add_(1)"


def test_a_line_that_takes_back_what_another_has_done_right(train):
    """Rounding at random, and then to nearest over it: each line alone does what it says."""
    model = _model()

    @torch.no_grad()
    def update() -> None:
        for each in model.parameters():
            wide = each.float() - RATE * each.grad.float()
            noise = torch.randint(0, 1 << 16, wide.shape, dtype=torch.int32)
            each.copy_(wide.view(torch.int32).add(noise).bitwise_and(-65536).view(torch.float32))
            each.copy_(wide)

    (lost,) = _lost(train(model, _loss(model), 8, update=update))
    assert lost["line"] == "each.copy_(wide)"


@pytest.mark.parametrize("how", ["itself", "its state", "a view", "masters that are the weights"])
def test_an_fp32_run_is_clean_whatever_it_copies(train, how):
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    weights = list(model.parameters())
    masters = [each.detach().float() for each in weights]
    optimizer = torch.optim.Adam(weights, lr=1e-3)

    @torch.no_grad()
    def update() -> None:
        optimizer.step()
        if how == "its state":
            model.load_state_dict(model.state_dict())
            return
        for each, master in zip(weights, masters, strict=True):
            source = {"itself": each.detach(), "a view": each.view(-1).view_as(each)}
            each.copy_(source.get(how, master))

    found = train(model, lambda _: (model(inputs()) - 1).square().mean(), 6, update=update)
    assert found.severe == []


def test_numbers_that_are_written_as_bits_are_what_they_are_afterwards(train):
    """An operator on whole numbers has written the memory of floating-point ones."""
    model = nn.Linear(8, 1)

    def loss_of(_step: int) -> torch.Tensor:
        table = torch.ones(16, 8) * 3
        table.view(torch.int32).copy_(torch.full((16, 8), 1.0).view(torch.int32))
        return (model(inputs()) * (table - 1.0).sum(-1, keepdim=True)).square().mean()

    assert train(model, loss_of).severe == []


def _stale(db: str, database, update, steps: int = 200) -> list[str]:
    torch.manual_seed(0)
    model = nn.Linear(8, 512).bfloat16()

    class Rounding(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self) -> None:
            for group in self.param_groups:
                for each in group["params"]:
                    update(each, each.float() - group["lr"] * each.grad.float().sign())

    optimizer = Rounding(model.parameters(), {"lr": 2e-5})
    with MixedPrecisionNanny(model, db=db, trace_interval=60, shadow="every=20", quiet=True):
        for _ in range(steps):
            optimizer.zero_grad()
            model(inputs().bfloat16()).float().square().mean().backward()
            optimizer.step()
    return [each["layer"] for each in database().alerts(type="STALE_UPDATE")]


def test_rounding_at_random_is_no_stale_update(db, database):
    def at_random(weight: torch.Tensor, wide: torch.Tensor) -> None:
        noise = torch.randint(0, 1 << 16, wide.shape, dtype=torch.int32)
        weight.copy_(wide.view(torch.int32).add(noise).bitwise_and(-65536).view(torch.float32))

    assert _stale(db, database, at_random) == []


def test_rounding_to_nearest_is_one(db, database):
    def to_nearest(weight: torch.Tensor, wide: torch.Tensor) -> None:
        weight.copy_(wide)

    assert _stale(db, database, to_nearest)


def test_since_when_a_change_is_lost_is_told(train):
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    (lost,) = _lost(train(model, _loss(model), 6, optimizer=optimizer))
    assert json.loads(lost["detail"])["since"] == 0
