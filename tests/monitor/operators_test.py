"""NaN origins outside of modules: the phase in the step where they are first seen, the operator and
the line in the dense steps that follow, as long as the fault is there in them.
"""

from __future__ import annotations

import math

import pytest
import torch
from conftest import Mlp, batch, cross_entropy
from faults import FAULT, broken, heal, line_of, train
from mpnanny import MixedPrecisionNanny
from torch import nn
from torch.utils.checkpoint import checkpoint


def log_loss(model, x, y, step):
    chances = model(x).softmax(-1)
    chances = chances * (0.0 if step >= FAULT else 1.0)
    return -torch.log(chances).mean()  # the fault


@pytest.mark.parametrize("blocks", [True, False])
def test_a_loss_function_gets_its_operator_and_line(blocks, lag, db, database):
    train(Mlp(), log_loss, db, blocks=blocks)
    first = broken(database, lag=lag)
    assert (first["type"], first["phase"], first["producer"]) == ("LOSS_NAN", "loss", 1)
    assert first["layer"].startswith("aten.log ")
    assert first["source"] == line_of(log_loss, "# the fault")
    assert "what went in is finite, up to 0" in first["message"]
    assert "aten.neg" in first["message"]  # what made +Inf of the -Inf
    (event,) = database().rows("SELECT detail FROM event WHERE type = 'operators_traced'")
    assert f'"steps_with_an_origin": {3 - lag}' in event["detail"]


class Masked(nn.Module):
    """Attention whose mask leaves nothing of a row from the step FAULT on."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.leave = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).t()
        mask = torch.ones(16, 16, dtype=torch.bool).tril()
        if self.step >= FAULT:
            mask[3] = False
        self.step += 1
        scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1)  # the fault
        return self.leave(weights @ x)


@pytest.mark.parametrize("blocks", [True, False])
def test_a_masked_row_is_the_softmax_and_not_the_mask(blocks, lag, db, database):
    train(Masked(), lambda m, x, y, _: cross_entropy(m(x), y), db, blocks=blocks)
    carrier, first = database().alerts(type="NAN")
    assert (carrier["layer"], carrier["step"], carrier["producer"]) == ("leave", FAULT, 0)
    assert "Made outside modules, after key" in carrier["message"]
    assert (first["phase"], first["step"]) == ("forward", FAULT)
    assert f" Traced at step {FAULT + 1 + lag}: aten._softmax" in first["message"]
    # It was the model's own alert: no module of it made the value.
    assert first["layer"].startswith("aten._softmax") and first["producer"] == 1
    assert first["source"] == line_of(Masked.forward, "# the fault")
    what = "NaN in float32 [16, 16]" if lag else "16 NaN of 256 elements in float32 [16, 16]"
    assert f"made {what}; what went in holds -Inf, as masks do" in first["message"]


class RootOfNothing(nn.Module):
    """From the step FAULT on the derivative of the root is infinite."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(8, 8), nn.Linear(8, 3)
        self.step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.enter(x)
        spread = hidden * (0.0 if self.step >= FAULT else 1.0)
        self.step += 1
        root = spread.square().sum(-1, keepdim=True).sqrt()  # the fault
        return self.leave(hidden + root)


@pytest.mark.parametrize("blocks", [True, False])
def test_a_gradient_gets_the_line_of_the_forward_pass(blocks, lag, db, database):
    # Guarding comes after the monitor has read the gradients, at the clipping.
    def loss_of(model, x, y, _step):
        return cross_entropy(model(x), y)

    torch.manual_seed(1)
    model = RootOfNothing()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    optimizer.register_step_post_hook(lambda *_: heal(model))
    nanny = MixedPrecisionNanny(model, optimizer, db=db, quiet=True)
    for step in range(8):
        block = nanny.step(step) if blocks else None
        if block:
            block.__enter__()
        x, y = batch()
        optimizer.zero_grad()
        loss_of(model, x, y, step).backward()
        optimizer.step()
        if block:
            block.__exit__(None, None, None)
    nanny.close()
    first = broken(database, lag=lag)
    assert (first["type"], first["phase"], first["layer"]) == ("NAN", "backward", "enter.bias")
    row = database().one("SELECT * FROM layer WHERE type = 'operator'")
    assert "backward of aten.sqrt" in row["name"]
    assert row["source"] == line_of(RootOfNothing.forward, "# the fault")
    assert "in the backward pass of aten.sqrt (operators_test.py:" in first["message"]


class Careless(torch.optim.SGD):
    """From the step FAULT on its update is infinite."""

    steps = 0

    def step(self, closure=None):
        super().step(closure)

    def _init_group(self, *arguments):
        self.steps += 1
        if self.steps > FAULT:
            with torch.no_grad():
                for parameter in self.param_groups[0]["params"]:
                    parameter.mul_(1e30).mul_(1e30)  # the fault
        return super()._init_group(*arguments)


@pytest.mark.parametrize("blocks", [True, False])
def test_an_update_that_ruins_the_weights_is_the_optimizer(blocks, db, database):
    torch.manual_seed(1)
    model = Mlp()
    optimizer = Careless(model.parameters(), lr=1e-2)
    nanny = MixedPrecisionNanny(model, optimizer, db=db, quiet=True)
    for step in range(10):
        block = nanny.step(step) if blocks else None
        if block:
            block.__enter__()
        x, y = batch()
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        if block:
            block.__exit__(None, None, None)
        if step == FAULT + 1:
            heal(model)  # somebody loads a checkpoint, and goes on
    nanny.close()
    first = broken(database, FAULT + 1)
    assert (first["type"], first["phase"]) == ("INF", "optimizer")
    assert first["layer"] == "enter" and first["producer"] == 1
    row = database().one("SELECT * FROM layer WHERE type = 'operator'")
    assert row["name"].startswith("aten.mul_")
    assert row["source"] == line_of(Careless._init_group, "# the fault")


def apply(optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()  # the fault


@pytest.mark.parametrize(
    ("options", "name"),
    [({"foreach": True}, "aten._foreach_add_.List"), ({"fused": True}, "aten._fused_sgd_")],
)
def test_updates_of_many_tensors_at_once_are_seen(options, name, db, database):
    torch.manual_seed(1)
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, **options)
    nanny = MixedPrecisionNanny(model, optimizer, db=db, quiet=True)
    for step in range(10):
        with nanny.step(step):
            x, y = batch()
            optimizer.zero_grad()
            (cross_entropy(model(x), y) * 1e3).backward()
            optimizer.param_groups[0]["lr"] = 1e37 if step >= FAULT else 1e-5
            apply(optimizer)
        if step == FAULT + 1:
            heal(model)
    nanny.close()
    # Its weights are finite still, those of later layers are not: the next step's alert is another.
    (row,) = [a for a in database().alerts(phase="optimizer") if a["step"] == FAULT + 2]
    assert row["layer"].startswith(f"{name} (") and row["producer"] == 1
    assert row["source"] == line_of(apply, "# the fault")


@pytest.mark.parametrize("blocks", [True, False])
def test_a_broken_batch_has_no_operator(blocks, db, database):
    def loss_of(model, x, y, step):
        if step >= FAULT:
            x = x.index_fill(0, torch.tensor([0]), 1.0)
            x.view(-1)[0] = float("nan")  # as a loader would hand it over
        return cross_entropy(model(x), y)

    train(Mlp(), loss_of, db, blocks=blocks)
    first = database().alerts(severity="ERROR")[0]
    assert (first["type"], first["phase"], first["step"]) == ("NAN", "data", FAULT)
    assert database().rows("SELECT * FROM layer WHERE type = 'operator'") == []


def test_data_that_is_broken_in_the_step_has_one(lag, db, database):
    def loss_of(model, x, y, step):
        x = x / (0.0 if step >= FAULT else 1.0)  # the fault
        return cross_entropy(model(x), y)

    train(Mlp(), loss_of, db, blocks=True)
    first = broken(database, lag=lag)
    assert (first["phase"], first["source"]) == ("data", line_of(loss_of, "# the fault"))
    assert first["layer"].startswith("aten.div.Tensor")


class Clamped(nn.Module):
    """An infinity that is clamped away before one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(8, 8), nn.Linear(8, 3)
        self.step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        healthy = (self.enter(x) * 1e38 * 1e38).clamp(-1.0, 1.0)
        factor = 1e38 if self.step >= FAULT else 1.0
        self.step += 1
        hidden = (healthy + 2.0) * factor
        hidden = hidden * factor  # the fault
        return self.leave(hidden.reshape(8, 16).t().reshape(16, 8))


@pytest.mark.parametrize("blocks", [True, False])
def test_an_infinity_that_is_clamped_away_is_not_blamed(lag, blocks, db, database):
    train(Clamped(), lambda m, x, y, _: cross_entropy(m(x), y), db, blocks=blocks)
    row = database().one("SELECT * FROM layer WHERE type = 'operator'")
    assert row["source"] == line_of(Clamped.forward, "# the fault")


def test_an_overflow_within_a_layer_is_told_of_the_layer(lag, db, database):
    def loss_of(model, x, y, step):
        with torch.autocast("cpu", dtype=torch.float16):
            return cross_entropy(model(x * (1e6 if step >= FAULT else 1.0)), y)  # the fault

    train(Mlp(), loss_of, db, blocks=True)
    first = broken(database, lag=lag)
    assert first["type"] == "INF"
    assert (first["layer"], first["producer"]) == ("enter", 1)
    assert "aten._to_copy" in first["message"] and "float16" in first["message"]
    row = database().one("SELECT * FROM layer WHERE type = 'operator'")
    assert row["name"].startswith("enter: aten._to_copy (conftest.py:")


class Steep(torch.autograd.Function):
    """Its backward pass divides by nothing from the step FAULT on."""

    step = 0

    @staticmethod
    def forward(ctx, x):
        Steep.step += 1
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient / (0.0 if Steep.step > FAULT else 1.0)  # the fault


@pytest.mark.parametrize("again", [False, True])
def test_a_backward_pass_of_the_users_own_is_its_own_line(lag, again, db, database):
    class Model(Mlp):
        def forward(self, x):
            hidden = self.act(self.enter(x))
            if again:  # the forward pass is run again within the backward pass
                return checkpoint(lambda h: self.leave(Steep.apply(h)), hidden, use_reentrant=True)
            return self.leave(Steep.apply(hidden))

    torch.manual_seed(1)
    Steep.step = -FAULT if again else 0  # each step applies it twice, then
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    optimizer.register_step_post_hook(lambda *_: heal(model))
    nanny = MixedPrecisionNanny(model, optimizer, db=db, quiet=True)
    for step in range(8):
        with nanny.step(step):
            x, y = batch()
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
    nanny.close()
    first = database().alerts(severity="ERROR")[0]
    assert (first["phase"], first["step"]) == ("backward", FAULT)
    row = database().one("SELECT * FROM layer WHERE type = 'operator'")
    assert row["source"] == line_of(Steep, "# the fault"), row
    assert "aten.div" in row["name"] and "in SteepBackward" in first["message"]


def test_the_second_batch_of_an_accumulated_step_is_followed_too(lag, db, database):
    def half(x):
        return torch.log(x)  # the fault

    torch.manual_seed(1)
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    optimizer.register_step_pre_hook(lambda *_: heal(model))
    nanny = MixedPrecisionNanny(model, optimizer, db=db, quiet=True)
    for step in range(8):
        optimizer.zero_grad()
        for part in range(2):
            x, y = batch()
            loss = cross_entropy(model(x), y)
            if part == 1:
                loss = loss - half(loss.detach() * (0.0 if step >= FAULT else 1.0))
            (loss / 2).backward()
        for parameter in model.parameters():
            parameter.grad.nan_to_num_(0.0, 0.0, 0.0)
        optimizer.step()
    nanny.close()
    first = broken(database, lag=lag)
    assert (first["type"], first["phase"]) == ("LOSS_NAN", "loss")
    assert first["source"] == line_of(half, "# the fault")
