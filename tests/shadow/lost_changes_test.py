"""What shadow steps find of updates that a weight's format takes back, and what loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from finds import Finds, text_of
from mpnanny import MixedPrecisionNanny
from mpnanny.fp64.births import Births
from mpnanny.fp64.operators import operator_of
from mpnanny.fp64.places import Site
from torch import nn

# --- changes that get lost ---


class Weights(nn.Module):
    """One BF16 parameter that wants to grow by less than half an ulp in each step."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full((64, 8), 1.0, dtype=torch.bfloat16))
        with torch.no_grad():
            self.w.mul_(1 + torch.rand(64, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -(self.w.float() * x).mean()

    def loss(self, _step: int) -> torch.Tensor:
        return self(1 + 0.1 * torch.rand(64, 8))


RATE = 0.5  # of gradients of 1/512: changes of 0.001 beside an ulp of 0.008


def test_bf16_weights_that_stay_lose_their_updates(train):
    model = Weights()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    found = train(model, model.loss, steps=8, optimizer=optimizer)
    first = found.first()
    assert (first["kind"], first["severity"]) == ("lost_change", "WARNING")
    assert (first["phase"], first["precision"]) == ("optimizer", "proven")
    assert first["step"] >= 2 and first["last_step"] == 7  # one lost update means nothing
    assert json.loads(first["detail"])["since"] == 0
    assert first["share"] > 0.9 and first["repeats"] >= 4


class Counts:
    """Of items that were seen; they end at 256."""

    def __init__(self) -> None:
        self.seen: torch.Tensor | None = None

    def add(self) -> torch.Tensor:
        if self.seen is None:
            self.seen = torch.full((64,), 256.0, dtype=torch.bfloat16)
        self.seen += 1.0
        return self.seen


def test_the_line_that_gave_a_table_its_format_is_named(train):
    model, counts = nn.Linear(64, 4), Counts()

    def loss(_step: int) -> torch.Tensor:
        return (model(torch.rand(8, 64)) / counts.add().float()[:4]).square().mean()

    first = train(model, loss, steps=8).first()
    assert (first["kind"], first["line"]) == ("lost_change", "self.seen += 1.0")
    home = text_of(json.loads(first["detail"])["home"])
    assert home == "self.seen = torch.full((64,), 256.0, dtype=torch.bfloat16)"


def test_the_line_that_cast_the_weights_is_named(train):
    model = nn.Linear(64, 4)

    def loss(step: int) -> torch.Tensor:
        if step == 0:
            model.to(torch.bfloat16)
        return model(torch.rand(8, 64).bfloat16()).float().square().mean()

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    first = train(model, loss, steps=8, optimizer=optimizer).first()
    assert (first["kind"], first["phase"]) == ("lost_change", "optimizer")
    assert text_of(json.loads(first["detail"])["home"]) == "model.to(torch.bfloat16)"


def test_memory_that_came_in_place_of_other_has_its_own_line():
    births = Births()
    for line in (1, 2):
        site = Site("aten.ones", "", "data", "train.py", line, None)
        made = torch.ones(8, dtype=torch.float16)
        births.saw(operator_of(torch.ops.aten.ones.default), (), made, site)
        assert births.of(made) is site
        assert births.of(made[2:]) is site
        del made
    assert births.of(torch.ones(8)) is None


def test_a_gradient_that_was_rounded_to_zero_is_lost_before_the_update(train):
    """FP16 gradients below 6e-8 are 0: weights that stay where they are lose nothing in FP32."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-12)

    def loss(_step: int) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(torch.rand(16, 8))
        return out.float().square().mean() * 1e-8

    found = train(model, loss, steps=8, optimizer=optimizer)
    lost = [each for each in found.all if each["kind"] == "lost_change"]
    assert lost
    assert all(json.loads(each["detail"])["lost_before"] for each in lost)


def test_an_update_that_the_format_loses_was_not_lost_before(train):
    model = Weights()
    found = train(model, model.loss, 8, torch.optim.SGD(model.parameters(), lr=RATE))
    assert "lost_before" not in json.loads(found.first()["detail"])


def test_two_steps_are_not_enough_to_call_an_update_lost(train):
    model = Weights()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    assert train(model, model.loss, steps=2, optimizer=optimizer).severe == []


@pytest.mark.parametrize(
    "rate",
    [
        0.25,
        RATE,
        1.0,
    ],
)
def test_updates_by_hand_are_lost_as_those_of_an_optimizer(train, rate):
    """What those below would find if it were not for what they do."""
    model = Weights()

    @torch.no_grad()
    def update() -> None:
        model.w.sub_(model.w.grad, alpha=rate)

    first = train(model, lambda step: model.loss(step) / 2, steps=10, update=update).first()
    assert (first["kind"], first["severity"]) == ("lost_change", "WARNING")
    assert first["line"] == "model.w.sub_(model.w.grad, alpha=rate)"


def test_weights_that_no_optimizer_updates_have_steps_all_the_same(db, database):
    """Found by their backward passes, once it is clear that no optimizer will follow."""
    model = Weights()
    with MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True):
        for step in range(24):
            model.w.grad = None
            model.loss(step).backward()
            with torch.no_grad():
                model.w.sub_(model.w.grad, alpha=RATE)
    found = Finds(database())
    assert len(found.steps) >= 12
    assert found.first()["line"] == "model.w.sub_(model.w.grad, alpha=RATE)"


def test_a_change_that_is_computed_before_is_lost_as_well(train):
    model = Weights()

    @torch.no_grad()
    def update() -> None:
        model.w.sub_(RATE * model.w.grad)

    first = train(model, model.loss, steps=10, update=update).first()
    assert (first["kind"], first["line"]) == ("lost_change", "model.w.sub_(RATE * model.w.grad)")


def test_kahan_compensation_loses_nothing(train):
    model = Weights()
    missing = torch.zeros_like(model.w)

    @torch.no_grad()
    def update() -> None:
        change = -RATE * model.w.grad + missing
        before = model.w.clone()
        model.w.add_(change)
        missing.copy_(change - (model.w - before))

    _by_hand(train, model, update)


def test_an_fp32_master_copy_loses_nothing(train):
    model = Weights()
    master = model.w.detach().float()

    @torch.no_grad()
    def update() -> None:
        master.add_(model.w.grad.float(), alpha=-RATE)
        model.w.copy_(master)

    _by_hand(train, model, update)


def test_stochastic_rounding_loses_nothing(train):
    model = Weights()

    @torch.no_grad()
    def update() -> None:
        wide = model.w.float() - RATE * model.w.grad.float()
        noise = torch.randint(0, 1 << 16, wide.shape, dtype=torch.int32)
        rounded = wide.view(torch.int32).add(noise).bitwise_and(-65536).view(torch.float32)
        model.w.copy_(rounded)

    _by_hand(train, model, update)


def _by_hand(train: Callable[..., Finds], model: Weights, update: Callable[[], None]) -> None:
    found = train(model, model.loss, steps=10, update=update)
    assert len(found.steps) == 10
    assert [each for each in found.severe if each["kind"] == "lost_change"] == []


# --- states that are made anew in each step ---


def averaged(dtype: torch.dtype, change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]):
    """The findings' kinds and lines of a training whose metric's average is `change(old, new)`."""
    model = nn.Linear(8, 8)
    kept = [torch.full((), 0.5, dtype=dtype)]

    def loss(_step: int) -> torch.Tensor:
        found = (model(torch.rand(16, 8)) - 1).square().mean()
        kept[0] = change(kept[0], found.detach().to(dtype))
        return found

    return model, loss


def test_an_average_that_is_made_anew_and_stays_as_it_was(train):
    def change(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        return old + (new - old) * 1e-3  # averages

    found = train(*averaged(torch.bfloat16, change), steps=8)
    lost = [each for each in found.severe if each["kind"] == "lost_change"]
    assert [each["line"] for each in lost] == ["return old + (new - old) * 1e-3  # averages"]
    assert lost[0]["precision"] == "proven" and "state" in lost[0]["reach"]


def test_one_in_fp32_loses_nothing(train):
    slow = averaged(torch.float32, lambda old, new: old + (new - old) * 1e-3)
    assert train(*slow, steps=8).severe == []


def test_one_whose_changes_are_large_enough_loses_nothing(train):
    fast = averaged(torch.bfloat16, lambda old, new: old + (new - old) * 0.3)
    assert train(*fast, steps=8).severe == []


def test_data_that_many_steps_add_little_to_lose_nothing(train):
    """They are not what the line made in the step before."""
    model = nn.Linear(8, 8)
    data = torch.rand(16, 8).bfloat16() + 1

    def loss(_step: int) -> torch.Tensor:
        return (model((data + 1e-4).float()) - 1).square().mean()

    assert train(model, loss, steps=8).severe == []
