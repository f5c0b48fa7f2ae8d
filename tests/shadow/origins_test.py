"""Errors that are too small where they come in, and large where they are used: the line that made
them is named, not the one that shows them.
"""

from __future__ import annotations

import json

import torch
from finds import inputs, text_of
from torch import nn


def severe(found, kind):
    return [each for each in found.severe if each["kind"] == kind]


def test_ids_that_lie_among_fractions(train):
    model = nn.Embedding(401, 8)

    def loss_of(_step: int) -> torch.Tensor:
        ids = torch.arange(0, 400, 3)
        table = torch.cat((torch.rand(len(ids), 1), ids[:, None].float()), 1)
        table = table.to(torch.bfloat16)
        return model(table[:, 1].long()).square().mean()

    found = severe(train(model, loss_of, steps=4), "integers")
    assert {each["line"] for each in found} == {"table = table.to(torch.bfloat16)"}
    assert found[0]["precision"] == "proven" and found[0]["dtype"] == "float32 → bfloat16"
    # Of 262, 264 … 399, which lie above 256, every second one is odd.
    assert 0.1 < found[0]["share"] < 0.25 and found[0]["reach"] == ["index"]


def test_fractions_that_become_whole_numbers_are_no_ids(train):
    model = nn.Embedding(401, 8)

    def loss_of(_step: int) -> torch.Tensor:
        places = (torch.rand(200) * 399).to(torch.bfloat16)
        return model(places.long()).square().mean()

    assert severe(train(model, loss_of, steps=4), "integers") == []


def test_a_search_names_what_made_its_boundaries(train):
    model = nn.Linear(8, 8)
    share = (0.5 + torch.rand(4000)).bfloat16()

    def loss_of(_step: int) -> torch.Tensor:
        total = share.cumsum(0)
        place = torch.searchsorted(total.float(), torch.rand(64) * 4000)
        return (model(inputs()) * place.float().mean()).mean()

    found = severe(train(model, loss_of, steps=4), "integers")
    assert found and found[0]["operator"].startswith("aten.searchsorted")
    origin = json.loads(found[0]["detail"])["origin"]
    assert text_of(origin["source"]) == "total = share.cumsum(0)"
    assert origin["dtype"] == "bfloat16" and 0 < origin["error"] < 0.02


def test_of_two_roundings_of_whole_numbers_the_one_that_changes_more(train):
    model = nn.Linear(8, 8)

    def loss_of(_step: int) -> torch.Tensor:
        minute = torch.arange(1, 8192, 61)
        rounded = minute.to(torch.bfloat16)
        periods = torch.tensor([777.0, 4.0, 3.0, 2.0]).to(torch.bfloat16)
        angle = (rounded[:, None] / periods).sin().float()
        return model(angle.repeat(1, 2)).square().mean()

    found = severe(train(model, loss_of, steps=4), "integers")
    assert found and {each["line"] for each in found} == {"rounded = minute.to(torch.bfloat16)"}


def test_a_straight_through_estimator_is_not_to_blame_for_what_a_cast_cuts_off(train):
    model = nn.Linear(8, 8)

    def loss_of(_step: int) -> torch.Tensor:
        x = inputs() * 1000
        narrow = x.to(torch.float8_e4m3fn)
        x = x + (narrow.float() - x).detach()
        return model(x).square().mean() / 1e6

    found = train(model, loss_of, steps=4).severe
    assert found[0]["line"].startswith("narrow = x.to") and found[0]["precision"] == "proven"
    assert not any("detach" in each["line"] for each in found)


class Attention(nn.Module):
    """Its keys are all the same, so that no query and no key has a gradient: one parameter holds
    them together with the values.
    """

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query = self.enter(x)
        same = x[:, :1].expand(-1, 4, -1)
        return self.attention(query, same, same)[0]


def test_an_update_out_of_the_rounding_of_a_gradient_that_is_0(train):
    torch.manual_seed(0)
    model = Attention()

    def loss_of(_step: int) -> torch.Tensor:
        x = inputs(32, 24).view(32, 3, 8)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made = model(x)
        return (made.float() - 1).square().mean()

    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    found = train(model, loss_of, optimizer=adam, steps=6)
    assert [each for each in found.severe if each["phase"] == "optimizer"] == []


def test_an_overflow_on_the_way_to_an_update_is_no_rounding(train):
    model = nn.Linear(8, 8).half()
    descent = torch.optim.SGD(model.parameters(), lr=0.01)

    def update() -> None:
        norm = sum((each.grad * each.grad).sum() for each in model.parameters()).sqrt()
        for each in model.parameters():
            each.grad.mul_((1.0 / (norm + 1e-6)).clamp(max=1.0))
        descent.step()

    loss_of = lambda _step: model(inputs().half()).float().square().sum() * 1e3  # noqa: E731
    found = train(model, loss_of, update=update, steps=2)
    first = found.first()
    assert first["kind"] == "range" and "each.grad * each.grad" in first["line"]
    assert "gradient" in first["reach"]


def test_a_table_that_the_batch_is_made_of(train):
    model = nn.Linear(8, 8)

    def loss_of(_step: int) -> torch.Tensor:
        rate = torch.linspace(1e-4, 6e-3, 1000, dtype=torch.bfloat16)
        kept = torch.cumprod(1 - rate, 0)
        x = inputs() * kept[950:].float().mean()
        return model(x).square().mean()

    found = train(model, loss_of, steps=4).severe
    assert found[0]["line"] == "kept = torch.cumprod(1 - rate, 0)"
    assert found[0]["precision"] == "proven" and "input" in found[0]["reach"]


def test_what_16_bits_have_blurred_is_cured_by_fp32_where_fp32_shows_it(train):
    model = nn.Linear(64, 8)
    rate = torch.rand(64)

    def loss_of(_step: int) -> torch.Tensor:
        phase = (50 * rate.bfloat16()).cumsum(0)
        wave = phase.float().sin()
        return model(wave[None]).square().mean()

    found = train(model, loss_of, steps=4).severe
    assert found[0]["line"] == "wave = phase.float().sin()"
    origin = json.loads(found[0]["detail"])["origin"]
    assert text_of(origin["source"]) == "phase = (50 * rate.bfloat16()).cumsum(0)"
    assert found[0]["precision"] == "proven" and found[0]["cure"]["what"] == "float32"
