"""Relations between the loss, gradients, parameters and optimizers: faulty trainings, each found at
its line, and healthy ones that look like them, in which there is nothing to say.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database
from finds import Finds, inputs
from mpnanny import MixedPrecisionNanny
from torch import nn

RELATIONS = {"no_gradient", "not_updated", "not_zeroed"}


def relations(found: Finds) -> list[dict[str, Any]]:
    for each in found.all:
        each["detail"] = json.loads(each["detail"] or "{}")
    return [each for each in found.all if each["kind"] in RELATIONS]


class Two(nn.Module):
    """A body and a head; `between` is what the body's result goes through."""

    def __init__(self, between: Callable[[torch.Tensor], torch.Tensor] = torch.relu) -> None:
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 1)
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.between(self.body(x)))


def square(model: nn.Module) -> Callable[[int], torch.Tensor]:
    return lambda _step: model(inputs()).square().mean()


def adam(*models: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam([p for each in models for p in each.parameters()], lr=1e-2)


# --- no_gradient ---


def without_gradients(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.relu(x)  # in no_grad


CUTS = {
    "x.detach()": lambda x: x.detach(),  # cut
    "no_grad": without_gradients,
    "round": lambda x: x.round(),  # cut
    "sign": lambda x: torch.sign(x),  # cut
    "clamp": lambda x: x.clamp(90, 100),  # cut
    "whole numbers": lambda x: (
        (
            (x * 10).long()  # cut
        ).float()
    ),
}


@pytest.mark.parametrize("name", CUTS)
def test_the_operator_that_cuts_off_the_gradient_is_named(train, name):
    model = Two(CUTS[name])
    found = relations(train(model, square(model), optimizer=adam(model), steps=5))
    assert [each["kind"] for each in found] == ["no_gradient"]
    first = found[0]
    assert first["severity"] == "WARNING" and first["precision"] == "excluded"
    assert first["line"].endswith("# cut") or first["line"].endswith("# in no_grad")
    assert first["detail"]["parameters"] == ["body.weight", "body.bias"]
    assert first["detail"]["count"] == 2 and first["detail"]["steps"] >= 3
    assert first["detail"]["none"] is (name not in ("round", "sign", "clamp"))


def test_argmax_in_front_of_an_embedding_cuts_off_what_chooses(train):
    class Choice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.choose, self.table = nn.Linear(8, 4), nn.Embedding(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            chosen = self.choose(x).argmax(1)  # cut
            return self.table(chosen)

    model = Choice()
    found = relations(train(model, square(model), optimizer=adam(model), steps=5))
    assert [each["kind"] for each in found] == ["no_gradient"]
    assert found[0]["line"].endswith("# cut")
    assert found[0]["detail"]["parameters"] == ["choose.weight", "choose.bias"]


# --- not_updated ---


def test_a_parameter_that_the_optimizer_does_not_hold_beside_one_that_it_does(train):
    model = Two()
    held = [each for name, each in model.named_parameters() if name != "body.bias"]
    found = relations(
        train(model, square(model), optimizer=torch.optim.Adam(held, lr=1e-2), steps=5)
    )
    assert [(each["kind"], each["severity"]) for each in found] == [("not_updated", "WARNING")]
    assert found[0]["detail"]["parameters"] == ["body.bias"]


def test_a_body_that_is_left_out_as_a_whole_is_a_note(train):
    model = Two()
    found = relations(train(model, square(model), optimizer=adam(model.head), steps=5))
    assert [(each["kind"], each["severity"]) for each in found] == [("not_updated", "INFO")]


def test_a_head_that_was_replaced_after_the_optimizer_got_its_parameters(train):
    """Left out as a whole as well, and no choice: the optimizer holds those of the head before."""
    model = Two()
    optimizer = adam(model)
    model.head = nn.Linear(8, 1)
    found = relations(train(model, square(model), optimizer=optimizer, steps=5))
    assert [(each["kind"], each["severity"]) for each in found] == [("not_updated", "WARNING")]
    assert found[0]["detail"]["parameters"] == ["head.weight", "head.bias"]
    assert found[0]["detail"]["stranded"] == 2


def test_a_body_that_is_left_out_beside_weights_that_are_in_no_module(train):
    """Weights without a module are a way to write a model: they get gradients."""
    model = Two()
    scale = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.Adam([*model.head.parameters(), scale], lr=1e-2)
    found = relations(
        train(model, lambda _: (scale * model(inputs())).square().mean(), optimizer=optimizer)
    )
    left = [each for each in found if each["kind"] == "not_updated"]  # the loop zeroes no scale
    assert [each["severity"] for each in left] == ["INFO"]


# --- not_zeroed ---


def run(
    db: str,
    model: nn.Module,
    steps: int,
    one_step: Callable[[int], None],
    database: Callable[[], Database],
    shadow: str = "every=1",
) -> Finds:
    with MixedPrecisionNanny(model, db=db, shadow=shadow, quiet=True):
        for step in range(steps):
            one_step(step)
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
    return Finds(database())


def test_gradients_that_nobody_zeroes(db, database):
    model = Two()
    optimizer = adam(model)

    def one_step(_step: int) -> None:
        model(inputs()).square().mean().backward()  # adds
        optimizer.step()

    found = relations(run(db, model, 5, one_step, database))
    assert [(each["kind"], each["severity"]) for each in found] == [("not_zeroed", "ERROR")]
    assert found[0]["line"].endswith("# adds")
    assert found[0]["detail"]["steps"] >= 3 and found[0]["detail"]["share"] == 1


@pytest.mark.parametrize("to_none", [True, False])
def test_accumulation_that_begins_anew_is_right(db, database, to_none):
    model = Two()
    optimizer = adam(model)

    def one_step(step: int) -> None:
        optimizer.zero_grad(set_to_none=to_none)
        for _ in range(3 if step < 4 else 1):  # an uneven end
            (model(inputs()).square().mean() / 3).backward()
        optimizer.step()

    assert relations(run(db, model, 6, one_step, database)) == []


def test_zeroed_after_the_step_is_right(db, database):
    model = Two()
    optimizer = adam(model)

    def one_step(_step: int) -> None:
        model(inputs()).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    assert relations(run(db, model, 6, one_step, database)) == []


def keep(buffer: torch.Tensor, gradient: torch.Tensor) -> None:
    buffer.copy_(gradient)


def test_gradients_that_are_copied_to_the_same_buffers_in_each_step_are_right(db, database):
    """As data-parallel training does: the memory is that of the step before, its content is not."""
    model = Two()
    optimizer = adam(model)
    buffers = {each: torch.zeros_like(each) for each in model.parameters()}
    for each in model.parameters():
        each.register_hook(lambda gradient, buffer=buffers[each]: keep(buffer, gradient))

    def one_step(_step: int) -> None:
        optimizer.zero_grad()
        model(inputs()).square().mean().backward()
        for each, buffer in buffers.items():
            each.grad = buffer
        optimizer.step()

    assert relations(run(db, model, 12, one_step, database, "every=2")) == []


# --- what is right ---


def test_frozen_and_adapted(train):
    """A frozen body, and an adapter whose second factor begins at 0."""

    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(8, 8).requires_grad_(False)
            self.a, self.b = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)
            nn.init.zeros_(self.b.weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x) + self.b(self.a(x))

    model = Adapted()
    assert relations(train(model, square(model), optimizer=adam(model), steps=6)) == []


def test_biases_alone_are_a_choice(train):
    model = Two()
    biases = [each for name, each in model.named_parameters() if name.endswith("bias")]
    found = relations(train(model, square(model), optimizer=torch.optim.Adam(biases), steps=5))
    assert [(each["kind"], each["severity"]) for each in found] == [("not_updated", "INFO")]


def test_a_critic_whose_outputs_are_only_compared(train):
    """The bias of its last layer has a gradient that cancels out: nothing cuts it off."""
    critic = Two()

    def loss_of(_step: int) -> torch.Tensor:
        return critic(inputs()).mean() - critic(inputs() + 1).mean()

    assert relations(train(critic, loss_of, optimizer=adam(critic), steps=6)) == []


def test_a_loss_whose_weight_begins_at_0(train):
    model = Two()
    model.other = nn.Linear(8, 4)

    def loss_of(step: int) -> torch.Tensor:
        body = model.body(inputs())
        weight = max(0.0, (step - 6) / 10)
        return model.head(body).square().mean() + weight * model.other(body).square().mean()

    assert relations(train(model, loss_of, optimizer=adam(model), steps=8)) == []


def test_a_straight_through_estimator(train):
    model = Two(lambda x: x + (x.round() - x).detach())
    assert relations(train(model, square(model), optimizer=adam(model), steps=6)) == []


def test_the_stop_gradient_of_two_views(train):
    model = Two()

    def loss_of(_step: int) -> torch.Tensor:
        x = inputs()
        first, second = model.body(x + 0.1), model.body(x - 0.1)
        return -nn.functional.cosine_similarity(
            model.head(torch.relu(first)).expand(-1, 8), second.detach()
        ).mean()

    found = train(model, loss_of, optimizer=adam(model), steps=12, shadow="every=2")
    assert relations(found) == []


def test_an_average_and_a_target_of_the_weights(db, database):
    model = nn.ModuleDict({"online": Two()})
    model["target"] = copy.deepcopy(model["online"])
    optimizer = adam(model)  # holds the target, too

    def one_step(_step: int) -> None:
        x = inputs()
        with torch.no_grad():
            wanted = 0.9 * model["target"](x) + 1
        optimizer.zero_grad()
        (model["online"](x) - wanted).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(
                model["target"].parameters(), model["online"].parameters(), strict=True
            ):
                mine.lerp_(theirs, 0.1)

    assert relations(run(db, model, 12, one_step, database, "every=2")) == []


def test_experts_of_which_some_are_not_chosen(train):
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(8, 4)
            self.experts = nn.ModuleList(nn.Linear(8, 1) for _ in range(4))
            with torch.no_grad():
                self.gate.bias[3] = -100.0  # never chosen

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight, chosen = self.gate(x).softmax(1).max(1)
            out = x.new_zeros(len(x), 1)
            for number, expert in enumerate(self.experts):
                rows = chosen == number
                out[rows] = weight[rows, None] * expert(x[rows])
            return out

    model = Experts()
    assert relations(train(model, square(model), optimizer=adam(model), steps=6)) == []


def test_two_players(db, database):
    model = nn.ModuleDict({"maker": nn.Linear(4, 8), "judge": nn.Linear(8, 1)})
    makes, judges = adam(model["maker"]), adam(model["judge"])

    def one_step(step: int) -> None:
        fake = model["maker"](torch.randn(16, 4))
        judges.zero_grad()
        wrong = nn.functional.softplus(model["judge"](fake.detach())).mean()
        (wrong + nn.functional.softplus(-model["judge"](inputs())).mean()).backward()
        judges.step()
        makes.zero_grad()
        nn.functional.softplus(-model["judge"](fake)).mean().backward()
        makes.step()

    assert relations(run(db, model, 12, one_step, database, "every=2")) == []


def test_optimizers_that_take_turns(db, database):
    model = Two()
    turns = [adam(model.body), adam(model.head)]

    def one_step(step: int) -> None:
        model.zero_grad()
        model(inputs()).square().mean().backward()
        turns[step % 2].step()

    assert relations(run(db, model, 8, one_step, database)) == []


def test_activations_that_are_computed_again(train):
    model = Two()
    body = model.body

    def loss_of(_step: int) -> torch.Tensor:
        x = inputs().requires_grad_()
        out = torch.utils.checkpoint.checkpoint(
            lambda y: torch.relu(body(y)), x, use_reentrant=True
        )
        return model.head(out).square().mean()

    found = train(model, loss_of, optimizer=adam(model), steps=12, shadow="every=2")
    assert relations(found) == []
