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
