"""Gradients that stop in the middle of a training."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from relations_test import Two, adam, relations, square


class Switched(Two):
    """From step 12 on `later` is what the body's result goes through as well."""

    def __init__(self, later: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.later, self.step = later, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        y = self.body(x)
        return self.head(self.later(y) if self.step > 12 else y)


STOPS = {
    "round": lambda x: (x * 8).round() / 8,  # cut
    "floor": lambda x: torch.floor(x),  # cut
    "sign": lambda x: x.sign(),  # cut
}


@pytest.mark.parametrize("name", STOPS)
@pytest.mark.parametrize("shadow", ["auto", "every=1"])
def test_a_quantizer_that_is_switched_on_stops_the_gradient(train, name, shadow):
    model = Switched(STOPS[name])
    steps = 40 if shadow == "auto" else 20
    found = relations(
        train(model, square(model), optimizer=adam(model), steps=steps, shadow=shadow)
    )
    assert [(each["kind"], each["severity"]) for each in found] == [("no_gradient", "WARNING")]
    assert found[0]["line"].endswith("# cut")
    assert found[0]["detail"]["parameters"] == ["body.weight", "body.bias"]
    assert found[0]["detail"]["until"] in (10, 11) and not found[0]["detail"]["none"]


GOES_ON = {
    "straight through": lambda x: x + (x.round() - x).detach(),
    "frozen": lambda x: x.detach(),
    "dead": lambda x: torch.relu(x - 100),
    "beside": lambda x: x.round() + 0.1 * x,
}


@pytest.mark.parametrize("name", GOES_ON)
def test_what_else_may_begin_in_the_middle(train, name):
    model = Switched(GOES_ON[name])
    assert relations(train(model, square(model), optimizer=adam(model), steps=20)) == []


@pytest.mark.parametrize("shadow", ["auto", "every=2"])
def test_a_quantizer_that_is_on_in_two_of_three_steps(train, shadow):
    model = Switched(torch.round)
    model.later = lambda x: x.round() if model.step % 3 else x
    found = train(model, square(model), optimizer=adam(model), steps=40, shadow=shadow)
    assert relations(found) == []
