"""What is undefined in FP64, too, and whether rounding before the step made it so."""

from __future__ import annotations

import json

import pytest
import torch
from finds import inputs
from torch import nn


def first_of(train, scale):
    model = nn.Linear(8, 8)
    first = train(model, lambda step: (model(inputs()) * scale()).mean(), steps=4).first()
    assert (first["kind"], first["severity"]) == ("undefined", "ERROR")
    return first["precision"], json.loads(first["detail"] or "{}").get("rounded_before", False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_one_that_was_rounded_up_before_is_not_excluded(train, dtype):
    kept = torch.tensor([0.9999, 0.5]).to(dtype)  # 1 and 0.5
    assert first_of(train, lambda: torch.log(1 - kept).float().sum()) == ("not_tested", True)


def test_the_same_in_fp32_is_excluded(train):
    kept = torch.tensor([1.0, 0.5])
    assert first_of(train, lambda: torch.log(1 - kept).sum()) == ("excluded", False)


def test_a_zero_is_zero_in_any_format(train):
    none = torch.zeros(4, dtype=torch.float16)
    assert first_of(train, lambda: torch.log(none).float().sum()) == ("excluded", False)


def test_equal_values_are_equal_in_any_format(train):
    """A deviation of values that are all the same is 0."""
    same = torch.full((4,), 0.3, dtype=torch.bfloat16)

    def scale() -> torch.Tensor:
        away = same - same.mean()
        return (away / away.square().mean().sqrt()).float().sum()

    assert first_of(train, scale) == ("excluded", False)


def test_a_negative_root_stays_one(train):
    below = torch.tensor([-2.0, 1.0], dtype=torch.bfloat16)
    assert first_of(train, lambda: below.sqrt().float().sum()) == ("excluded", False)


# --- what was computed before the step, and what only looks so ---


def test_two_data_sets_that_were_rounded_to_the_same_values_exclude_nothing(train):
    exact = torch.rand(64) + 1
    one, other = exact.bfloat16(), (exact * (1 + 1e-4)).bfloat16()
    assert first_of(train, lambda: (one - other).float().log().sum())[0] == "not_tested"


def test_fp32_values_on_the_grid_of_a_narrow_format_were_rounded(train):
    share = torch.linspace(0.9, 1.0, 64) - 1e-5
    rounded = share.bfloat16().float()
    assert first_of(train, lambda: (1 - rounded).log().sum()) == ("not_tested", True)


def test_labels_and_flags_in_fp32_were_not(train):
    flags = (torch.arange(64) % 2).float()
    assert first_of(train, lambda: (1 - flags).log().sum()) == ("excluded", False)


def test_a_value_that_numpy_has_computed_excludes_nothing(train):
    share = torch.linspace(0.5, 1.0, 64)

    def scale() -> torch.Tensor:
        return torch.log(1 - torch.from_numpy(share.numpy() * 1.0)).sum()

    assert first_of(train, scale) == ("not_tested", True)


def test_an_intermediate_of_an_earlier_step_excludes_nothing(train):
    """It is 1 in FP32, and 1 - 1e-9 where FP64 computes it from the beginning."""
    model = nn.Linear(8, 8)
    kept: list[torch.Tensor] = []

    def loss_of(step: int) -> torch.Tensor:
        share = (model(inputs()) * 0.01 + 20).sigmoid()
        loss = (1 - kept[-1]).log().mean() * share.mean() if step == 2 else share.mean()
        kept.append(share.detach())
        return loss

    first = train(model, loss_of, steps=3).first()
    assert (first["kind"], first["precision"]) == ("undefined", "not_tested")


def test_a_bound_that_rounds_to_one_is_precision(train):
    """clamp(max=1 - 1e-6) in BF16 clamps nothing."""
    model = nn.Linear(8, 8)

    def loss_of(step: int) -> torch.Tensor:
        share = (model(inputs()).bfloat16() + (12.0 if step == 2 else 0.0)).sigmoid()
        share = share.clamp(max=1 - 1e-6)
        return -(1 - share).log().float().mean()

    for shadow in ("every=1", "steps=0-1"):
        first = train(model, loss_of, steps=3, shadow=shadow).first()
        assert (first["kind"], first["precision"]) == ("range", "proven")


def test_a_detached_value_of_the_loss_that_was_rounded_excludes_nothing(train):
    """Autograd has kept the weight, and nobody knows what it was computed of."""
    model = nn.Linear(8, 8)

    def loss_of(step: int) -> torch.Tensor:
        score = model(inputs())
        share = (score.detach().bfloat16() + torch.linspace(0, 12, 8).bfloat16()).sigmoid()
        return -(score * (1 - share).float()).log().mean() if step == 2 else score.mean()

    first = train(model, loss_of, steps=3, shadow="steps=0-1").first()
    assert (first["kind"], first["precision"]) == ("undefined", "not_tested")


def test_a_model_that_saturates_excludes_nothing_by_its_output_alone(train):
    """Its output is 1 in FP32; in FP64, from the batch on, it is less."""

    class Saturates(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.enter(x) * 0.01 + (20.0 if self.saturates else 0.0)).sigmoid()

    model = Saturates()

    def loss_of(step: int) -> torch.Tensor:
        model.saturates = step == 2
        return -(1 - model(inputs())).log().mean()

    for shadow in ("every=1", "steps=0-1"):
        first = train(model, loss_of, steps=3, shadow=shadow).first()
        assert first["precision"] != "excluded"


def test_what_fails_in_fp64_from_the_batch_on_is_excluded_without_a_shadow_too(train):
    model = nn.Linear(8, 8)

    def loss_of(step: int) -> torch.Tensor:
        given = inputs() * (0.0 if step == 2 else 1.0)
        return (model(given) - model.bias).abs().log().mean() * 1e-3

    first = train(model, loss_of, steps=3, shadow="steps=0-1").first()
    assert (first["kind"], first["precision"]) == ("undefined", "excluded")
