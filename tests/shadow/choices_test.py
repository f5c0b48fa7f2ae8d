"""What is chosen among numbers that lie close together: other ones than in FP64, because of an
error that is small beside the numbers.
"""

from __future__ import annotations

import pytest
import torch
from mpnanny.fp64.call import Call
from mpnanny.fp64.operators import operator_of
from mpnanny.fp64.places import Site
from mpnanny.fp64.selection import share_of_others
from torch import nn


def close(count: int) -> torch.Tensor:
    """Numbers between 1 and 1.001, which BF16 holds as 1."""
    return 1 + 1e-3 * torch.rand(count)


def fit(model: nn.Linear, rows: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    return (model(rows[chosen]) - 1).square().mean()


def test_the_hardest_examples_by_scores_in_bf16_are_others(train):
    model, rows = nn.Linear(4, 1), torch.randn(512, 4)

    def loss(_step: int) -> torch.Tensor:
        scores = close(512).bfloat16()
        chosen = scores.topk(64).indices
        return fit(model, rows, chosen)

    first = train(model, loss).first()
    assert (first["kind"], first["severity"], first["precision"]) == (
        "integers",
        "WARNING",
        "proven",
    )
    assert first["line"] == "chosen = scores.topk(64).indices" and "index" in first["reach"]
    assert "scores = close(512).bfloat16()" in first["cure"]["lines"]


def test_ranks_by_scores_with_ties_are_others(train):
    model, weights = nn.Linear(4, 1), torch.linspace(0, 1, 256)

    def loss(_step: int) -> torch.Tensor:
        scores = close(256).bfloat16()
        ranks = scores.argsort().argsort() // 2 * 2
        return (model(torch.ones(256, 4)).squeeze(1) * weights[ranks]).square().mean()

    first = train(model, loss).first()
    assert (first["kind"], first["severity"], first["precision"]) == (
        "integers",
        "WARNING",
        "proven",
    )
    assert first["line"] == "ranks = scores.argsort().argsort() // 2 * 2"


def test_the_nearest_centres_of_far_points_are_others(train):
    model = nn.Embedding(32, 4)
    centres = 100 + torch.randn(32, 4)

    def loss(_step: int) -> torch.Tensor:
        points = 100 + torch.randn(64, 4)
        x, c = points.bfloat16(), centres.bfloat16()
        distances = (x * x).sum(1, keepdim=True) - 2 * x @ c.t() + (c * c).sum(1)
        return (model(distances.argmin(1)) - points / 100).square().mean()

    severe = train(model, loss).severe
    assert any("argmin" in each["line"] and "index" in each["reach"] for each in severe)


def test_a_threshold_among_ties_chooses_others(train):
    model, rows = nn.Linear(4, 1), torch.randn(512, 4)

    def loss(_step: int) -> torch.Tensor:
        scores = close(512).bfloat16()
        hard = scores >= scores.kthvalue(461).values
        return torch.where(hard, model(rows).squeeze(1) - 1, 0.0).square().mean()

    first = train(model, loss).first()
    assert (first["kind"], first["severity"], first["precision"]) == (
        "integers",
        "WARNING",
        "proven",
    )
    assert first["line"] == "hard = scores >= scores.kthvalue(461).values"


def test_a_threshold_that_some_close_values_cross_is_nothing(train):
    model, rows = nn.Linear(4, 1), torch.randn(512, 4)

    def loss(_step: int) -> torch.Tensor:
        scores = torch.rand(512).bfloat16() + torch.rand(512).bfloat16()
        return torch.where(scores > 1.8, model(rows).squeeze(1) - 1, 0.0).square().mean()

    assert train(model, loss).severe == []


def test_choices_that_only_a_figure_is_made_of_are_nothing(train):
    model, rows = nn.Linear(4, 1), torch.randn(512, 4)
    right = []

    def loss(_step: int) -> torch.Tensor:
        scores = close(512 * 4).bfloat16().reshape(512, 4)
        right.append((scores.argmax(1) == 0).float().mean())
        return fit(model, rows, torch.arange(64))

    assert train(model, loss).all == []


def test_a_router_whose_close_scores_fall_the_other_way_is_nothing(train):
    model, experts = nn.Linear(16, 8), torch.randn(8, 16)

    def loss(_step: int) -> torch.Tensor:
        x = torch.randn(256, 16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            weight, chosen = torch.softmax(model(x), -1).topk(2)
        mixed = (experts[chosen] * weight.float()[..., None]).sum(1)
        return (mixed - x).square().mean()

    assert train(model, loss).severe == []


def test_a_random_order_in_bf16_is_nothing(train):
    model, rows = nn.Linear(4, 1), torch.randn(512, 4)

    def loss(_step: int) -> torch.Tensor:
        return fit(model, rows, torch.rand(512).bfloat16().argsort()[:64])

    assert train(model, loss).severe == []


def _share(function, held, values, *args, **kwargs) -> float:
    operator = operator_of(function)
    call = Call(operator, function, Site(operator.name, "", "data", "", 0, None), 1)
    call.reference_args, call.reference_kwargs = (values.double(), *args), kwargs
    reference = function(values.double(), *args, **kwargs)
    reference = reference if isinstance(reference, torch.Tensor) else reference[1]
    return share_of_others(call, torch.tensor(held), reference)


@pytest.mark.parametrize(
    ("function", "held", "args", "share"),
    [
        ("topk.default", [3, 1], (2,), 0.0),  # in another order
        ("topk.default", [3, 0], (2,), 0.5),
        ("topk.default", [0, 2], (2, -1, False), 0.0),  # the smallest: 0 and one of two equal ones
        ("topk.default", [0, 3], (2, -1, False), 0.5),
        ("argmax.default", 1, (), 1.0),
        ("argmax.default", 3, (), 0.0),
        ("argmin.default", 0, (0,), 0.0),
        ("max.dim", 3, (0,), 0.0),
        ("sort.default", [0, 2, 4, 1, 3], (), 0.0),
        ("sort.default", [3, 1, 4, 2, 0], (), 1.0),
    ],
)
def test_shares_are_by_the_values_of_the_reference(function, held, args, share):
    values = torch.tensor([0.0, 3.0, 1.0, 4.0, 1.0])
    name, _, overload = function.partition(".")
    operator = getattr(getattr(torch.ops.aten, name), overload)
    assert _share(operator, held, values, *args) == pytest.approx(share, abs=0.05)
