"""Gradients that one optimizer's loss leaves to another optimizer: faulty trainings, and right ones
with several optimizers that look like them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database
from finds import Finds, inputs
from mpnanny import MixedPrecisionNanny
from torch import nn
from torch.nn.functional import softplus


@pytest.fixture
def run(db: str, database: Callable[[], Database]) -> Callable[..., list[dict[str, Any]]]:
    def train(
        model: nn.Module, one_step: Callable[[int], None], steps: int = 12, shadow: str = "auto"
    ) -> list[dict[str, Any]]:
        with MixedPrecisionNanny(model, db=db, shadow=shadow, quiet=True):
            for step in range(steps):
                one_step(step)
        failed = database().rows("SELECT * FROM event WHERE type = 'hook_failed'")
        assert [each["detail"] for each in failed] == []
        found = [each for each in Finds(database()).all if each["kind"] == "not_zeroed"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    torch.manual_seed(0)
    return train


def adam(*models: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam([p for each in models for p in each.parameters()], lr=1e-3)


class Players:
    """A maker and a judge, which are trained in turn. `zero`: when the judge's gradients are set to
    zero: before or after its own step.
    """

    def __init__(self, zero: str, scaler: bool = False) -> None:
        self.maker, self.judge = nn.Linear(4, 8), nn.Linear(8, 1)
        self.makes, self.judges = adam(self.maker), adam(self.judge)
        self.zero = zero
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled=scaler)

    def __call__(self, step: int) -> None:
        fake = self.maker(torch.randn(16, 4))
        if self.zero == "before":
            self.judges.zero_grad()
        wrong = softplus(self.judge(fake.detach())).mean()
        right = softplus(-self.judge(inputs())).mean()
        self.scaler.scale(wrong + right).backward()  # the judge's
        self.scaler.step(self.judges)
        if self.zero == "after":
            self.judges.zero_grad(set_to_none=step % 2 == 0)
        self.makes.zero_grad()
        self.scaler.scale(softplus(-self.judge(fake)).mean()).backward()  # the maker's
        self.scaler.step(self.makes)
        self.scaler.update()


@pytest.mark.parametrize("scaler", [False, True])
@pytest.mark.parametrize("watched", ["both", "judge"])
def test_a_judge_that_keeps_the_gradients_of_the_makers_loss(run, watched, scaler):
    players = Players("after", scaler)
    model = players.judge
    if watched == "both":
        model = nn.ModuleList([players.judge, players.maker])
    (found,) = run(model, players)
    assert found["severity"] == "WARNING" and found["precision"] == "excluded"
    assert found["line"].endswith("# the judge's")
    file, _, line = found["detail"]["at"].rpartition(":")
    with open(file, encoding="utf-8") as lines:
        assert lines.read().splitlines()[int(line) - 1].endswith("# the maker's")
    assert found["detail"]["steps"] >= 3 and 0.05 < found["detail"]["share"] < 0.95


def test_the_maker_has_nothing_to_be_told(run):
    players = Players("after")
    assert run(players.maker, players) == []


@pytest.mark.parametrize("scaler", [False, True])
def test_a_judge_whose_gradients_are_zeroed_in_time(run, scaler):
    players = Players("before", scaler)
    assert run(nn.ModuleList([players.judge, players.maker]), players, shadow="every=1") == []


def test_critics_that_keep_the_gradients_of_the_actors_loss(run):
    """Two of them, with an optimizer each, step on one pass."""
    model = nn.ModuleDict({"actor": nn.Linear(8, 4), "a": nn.Linear(12, 1), "b": nn.Linear(12, 1)})
    acts, firsts, seconds = (adam(model[name]) for name in ("actor", "a", "b"))

    def one_step(_step: int) -> None:
        state = inputs()
        both = torch.cat([state, torch.randn(16, 4)], 1)
        wanted = torch.randn(16, 1)
        loss = (model["a"](both) - wanted).square().mean()
        loss = loss + (model["b"](both) - wanted).square().mean()
        loss.backward()
        for each in (firsts, seconds):
            each.step()
            each.zero_grad()
        done = torch.cat([state, model["actor"](state).tanh()], 1)
        acts.zero_grad()
        (-torch.minimum(model["a"](done), model["b"](done)).mean()).backward()
        acts.step()

    assert len(run(model, one_step)) >= 1


# --- what is right ---


class Tasks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 1)


@pytest.mark.parametrize("body_last", [False, True])
def test_a_body_that_learns_from_two_losses(run, body_last):
    """Each of which has a head with an optimizer of its own."""
    model = Tasks()
    body, one, two = adam(model.body), adam(model.one), adam(model.two)

    def one_step(_step: int) -> None:
        model.zero_grad()
        x = inputs()
        model.one(model.body(x)).square().mean().backward()
        one.step()
        (model.two(model.body(x)) - 1).square().mean().backward()
        for each in (two, body) if body_last else (body, two):
            each.step()

    assert run(model, one_step) == []


def test_one_pass_for_several_optimizers(run):
    model = Tasks()
    each_one = [adam(model.body), adam(model.one), adam(model.two)]

    def one_step(_step: int) -> None:
        x = torch.relu(model.body(inputs()))
        (model.one(x).square().mean() + (model.two(x) - 1).square().mean()).backward()
        for each in each_one:
            each.step()
            each.zero_grad(set_to_none=False)

    assert run(model, one_step) == []


def test_a_body_that_steps_every_fourth_time(run):
    model = Tasks()
    body, head = adam(model.body), adam(model.one)

    def one_step(step: int) -> None:
        head.zero_grad()
        model.one(torch.relu(model.body(inputs()))).square().mean().backward()
        head.step()
        if step % 4 == 3:
            body.step()
            body.zero_grad()

    assert run(model, one_step, steps=32) == []


def test_several_losses_for_one_update_beside_another_model(run):
    """Another model is trained between the passes that are added up."""
    model, other = Tasks(), Tasks()
    mine, theirs = adam(model), adam(other)

    def one_step(_step: int) -> None:
        mine.zero_grad()
        for head in (model.one, model.two):
            head(model.body(inputs())).square().mean().backward()
            theirs.zero_grad()
            other.one(other.body(inputs())).square().mean().backward()
            theirs.step()
        mine.step()

    assert run(model, one_step) == []


def test_not_a_bit_of_the_training_changes(run):
    ends = []
    for watched in (True, False):
        torch.manual_seed(3)
        players = Players("after", scaler=True)
        if watched:
            assert len(run(nn.ModuleList([players.judge, players.maker]), players)) == 1
        else:
            for step in range(12):
                players(step)
        weights = [*players.judge.parameters(), *players.maker.parameters()]
        ends.append([(each.detach().clone(), each._version) for each in weights])
        ends[-1] += [(each.grad.clone(), 0) for each in weights if each.grad is not None]
    assert len(ends[0]) == len(ends[1])
    for (mine, version), (theirs, other) in zip(*ends, strict=True):
        assert torch.equal(mine, theirs) and version == other
