"""Shadow steps of some layers only: those that the user asked for, and layers in turn where memory
does not do for all of them.
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
from mpnanny.shadow import session
from mpnanny.shadow.schedule import parse
from mpnanny.shadow.scope import OPTIMIZER, OUTSIDE, matcher
from torch import nn

# --- what is asked for ---


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("auto", ()),
        ("every=3 layers=head", ("head",)),
        ("layers=encoder.*,head steps=3-4", ("encoder.*", "head")),
        ("layers=a layers=b,c", ("a", "b", "c")),
    ],
)
def test_layers_stand_beside_the_steps(text, layers):
    assert parse(text).layers == layers


def test_layers_alone_are_followed_in_the_steps_of_auto():
    assert parse("layers=head").mode == "auto"
    assert parse("every=5 eager") == parse("eager  every=5")
    assert parse("every=5 eager").eager and not parse("every=5").eager


@pytest.mark.parametrize("text", ["", " ", "layers=", "auto every=3", "every=0 layers=a", "lazy"])
def test_other_words_are_refused(text):
    with pytest.raises(ValueError, match="shadow="):
        parse(text)


def test_a_layer_is_chosen_by_its_own_name_or_one_around_it():
    fits = matcher(["encoder.*", "head"])
    assert fits("head") and fits("head.proj") and fits("encoder.0.attention")
    assert not fits("encoder") and not fits("header") and not fits("")
    assert not matcher(["*"])(OPTIMIZER) and not matcher(["*"])(OUTSIDE) and matcher(["*"])("")


# --- followed in a training ---


class Variance(nn.Module):
    """A difference that loses nearly everything in BF16."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        if not self.wrong:
            return x + x.tanh()
        y = (x + 300).to(torch.bfloat16)
        variance = (y * y).mean(1, keepdim=True) - y.mean(1, keepdim=True) ** 2
        return x * variance.float().tanh().to(x.dtype)


class Model(nn.Module):
    """Layers of which some are wrong."""

    def __init__(self, *wrong: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[Variance(each) for each in wrong])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def course(model: nn.Module, rows: int = 8) -> Callable[[int], torch.Tensor]:
    return lambda _step: model(inputs(rows, 16)).square().mean()


def steps_of(database: Callable[[], Database]) -> list[dict[str, Any]]:
    rows = database().rows("SELECT * FROM shadow_step ORDER BY step")
    return [{**row, "detail": json.loads(row["detail"])} for row in rows]


def profiled(database: Callable[[], Database], step: int | None = None) -> set[str]:
    rows = database().rows(
        "SELECT layer.name, shadow_profile.step FROM shadow_profile JOIN layer USING (layer_id)"
    )
    return {row["name"] for row in rows if step is None or row["step"] == step}


VARIANCE = "variance = (y * y).mean(1, keepdim=True) - y.mean(1, keepdim=True) ** 2"


def lines(found: Finds) -> set[tuple[str, str]]:
    """Module and line of what was found."""
    names = {row["layer_id"]: row["name"] for row in found.database.rows("SELECT * FROM layer")}
    return {(names.get(each["layer_id"], ""), each["line"]) for each in found.severe}


def test_only_the_layers_that_were_asked_for_are_followed(train, database):
    model = Model(True, False, True)
    found = train(model, course(model), shadow="every=1 layers=layers.2", steps=3)
    assert lines(found) == {("layers.2", VARIANCE)}
    first = found.first()
    assert first["kind"] in ("amplified", "flushed")
    assert (first["severity"], first["precision"]) == ("WARNING", "proven")
    assert set(first["reach"]) & {"output", "gradient"}
    assert profiled(database) == {"layers.2", "layers.2.linear"}
    for step in steps_of(database):
        assert step["compared"] > 0
        assert step["detail"]["mode"] == "history"
        assert step["detail"]["followed"] == ["layers.2", "layers.2.linear"]
        assert step["detail"]["left_out"] >= 4


def test_the_other_layers_are_found_without_it(train):
    model = Model(True, False, True)
    found = train(model, course(model), shadow="every=1", steps=3)
    assert ("layers.0", VARIANCE) in lines(found)


def test_an_overflow_that_leaves_the_layer_is_an_error(train):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).half()

    class Energy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 100).pow(4)

    model.append(Energy())
    loss = lambda _step: model(inputs().half()).float().mean()  # noqa: E731
    first = train(model, loss, steps=1, shadow="every=1 layers=2").first()
    assert (first["kind"], first["severity"], first["precision"]) == ("range", "ERROR", "proven")
    assert first["line"] == "return (x * 100).pow(4)" and "output" in first["reach"]


def test_an_overflow_before_the_layer_is_not_one_of_the_layer(train):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)).half()
    with torch.no_grad():
        model[0].weight.mul_(60000)
    loss = lambda _step: model(inputs().half() * 100).float().mean()  # noqa: E731
    found = train(model, loss, steps=1, shadow="every=1 layers=2")
    assert [each for each in found.severe if each["kind"] == "range"] == []


def test_gradients_of_the_layers_are_followed_to_the_optimizer(train):
    """Flushed in the backward pass of the layer, out of a gradient that comes from outside."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)).half()
    loss = lambda _step: model(inputs().half()).float().square().mean() * 1e-6  # noqa: E731
    rate = torch.optim.SGD(model.parameters(), lr=1e4)
    found = train(model, loss, steps=3, optimizer=rate, shadow="every=1 layers=0,1,2")
    assert all(each["phase"] == "backward" for each in found.severe)


def test_layers_that_there_are_not_are_said_once(train, database):
    model = Model(True, False)
    found = train(model, course(model), shadow="every=1 layers=decoder.*", steps=3)
    assert found.all == [] and len(found.steps) == 3
    notes = json.loads(database().one("SELECT notes FROM run")["notes"])
    assert sum("follow nothing" in note for note in notes) == 1


# --- layers in turn ---


@pytest.fixture
def allow(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the bytes that references may take."""
    return lambda size: monkeypatch.setattr(session, "allowance", lambda: size)


WRONG_AT_THE_END = (*(False,) * 7, True)


def test_with_too_little_memory_layers_are_followed_in_turn(train, allow, database):
    torch.manual_seed(0)
    model = Model(*WRONG_AT_THE_END)
    allow(140_000)
    found = train(model, course(model, 64), steps=40)
    assert lines(found) == {("layers.7", VARIANCE)}
    steps = steps_of(database)
    seen = steps[found.first()["last_step"]]["detail"]
    assert "layers.7" in seen["followed"] and "memory" not in seen["restarts"]
    assert steps[0]["detail"]["restarts"]["memory"] >= 1  # by which it is known
    assert "followed" not in steps[0]["detail"]
    turns = [set(step["detail"].get("followed", ())) for step in steps[1:]]
    assert len(turns) == 39 and all(turns)
    assert all(step["detail"]["mode"] == "history" for step in steps)
    everything = set().union(*turns)
    assert {OPTIMIZER, OUTSIDE} <= everything
    assert {f"layers.{at}" for at in range(8)} <= everything
    assert max(step["detail"]["left_out"] for step in steps[1:]) >= 4
    fits = [step for step in steps[1:] if "memory" not in step["detail"]["restarts"]]
    assert len(fits) > 20 and all(step["memory"] <= 140_000 for step in fits)
    assert profiled(database) >= {f"layers.{at}.linear" for at in range(8)}
    notes = json.loads(database().one("SELECT notes FROM run")["notes"])
    assert sum("layers in turn" in note for note in notes) == 1


def test_healthy_layers_in_turn_are_healthy(train, allow):
    torch.manual_seed(0)
    model = Model(*(False,) * 8).bfloat16()
    loss = lambda _step: model(inputs(64, 16).bfloat16()).float().square().mean()  # noqa: E731
    allow(60_000)
    descent = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found = train(model, loss, steps=30, optimizer=descent)
    assert [each for each in found.severe if each["kind"] != "lost_change"] == []


class Long(nn.Module):
    """Many results that live until the backward pass; at last FP16, whose range ends at 65504."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.scale = 1000.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        for _ in range(40):
            x = x.tanh()
        half = (x * 0 + 1).half() * self.scale
        return half.float() + x


def test_a_layer_that_does_not_fit_is_followed_operator_by_operator(train, allow, database):
    model = nn.Sequential(Long())
    allow(200_000)
    overflowing = 6  # the step from which on

    def loss_of(step: int) -> torch.Tensor:
        model[0].scale = 1e6 if step >= overflowing else 1000.0
        return model(inputs(64, 16)).mean()

    found = train(model, loss_of, steps=16, update=lambda: None)
    steps = steps_of(database)
    assert steps[1]["detail"]["mode"] == "history"  # the first part is tried as ever
    alone = [step for step in steps if step["detail"]["mode"] == "operator"]
    assert alone and all(step["detail"]["followed"] == ["0"] for step in alone)
    assert all(step["memory"] <= 200_000 for step in alone)
    (first,) = [each for each in found.severe if each["kind"] == "range"]
    assert first["line"] == "half = (x * 0 + 1).half() * self.scale"
    assert (first["severity"], first["precision"]) == ("ERROR", "proven")
    assert first["reach"] == ["loss"]
    assert first["step"] in {step["step"] for step in alone if step["step"] >= overflowing}
    notes = json.loads(database().one("SELECT notes FROM run")["notes"])
    assert sum("one by one" in note for note in notes) == 1


def test_everything_is_followed_again_once_there_is_memory(train, monkeypatch, database):
    torch.manual_seed(0)
    model = Model(*(False,) * 4)
    allowed = iter([*[30_000] * 12, *[10_000_000] * 100])
    monkeypatch.setattr(session, "allowance", lambda: next(allowed))
    train(model, course(model, 64), steps=16)
    steps = steps_of(database)
    assert any("followed" in step["detail"] for step in steps[:6])
    assert "followed" not in steps[-1]["detail"]


@pytest.mark.parametrize("how", ["every=1 layers=layers.1", "in turn", "alone"])
def test_the_training_is_the_same_however_much_is_followed(how, allow, db):
    def weights(shadow: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Model(False, True, False).bfloat16()
        descent = torch.optim.AdamW(model.parameters(), lr=1e-2)
        with MixedPrecisionNanny(model, db=f"{db}.{len(shadow)}", shadow=shadow, quiet=True):
            for _ in range(12):
                for _half in range(2):  # gradients add up
                    model(inputs(32, 16).bfloat16()).float().square().mean().backward()
                descent.step()
                descent.zero_grad()
        versions = [torch.tensor(each._version) for each in model.parameters()]
        return [*(each.detach() for each in model.parameters()), *versions, torch.get_rng_state()]

    expected = weights("off")
    if how in ("in turn", "alone"):
        allow(60_000 if how == "in turn" else 9_000)
    got = weights(how if "=" in how else "every=1")
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
