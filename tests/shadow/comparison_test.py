"""Comparisons of tensors that the kernels cannot reach: the same figures by torch's operators."""

from __future__ import annotations

import math

import pytest
import torch
from mpnanny.fp64 import comparison


def figures_agree(kernel, composed):
    for name in kernel._fields:
        one, other = getattr(kernel, name), getattr(composed, name)
        assert one == other or math.isclose(one, other, rel_tol=1e-9), name


@pytest.fixture
def reference():
    torch.manual_seed(0)
    rows = torch.tensor([1, 1e-9, 1e6, 3, 0.0], dtype=torch.float64)[:, None]
    made = torch.randn(5, 1000, dtype=torch.float64) * rows
    made[0, :3] = torch.tensor([math.nan, math.inf, -math.inf])
    made[3] = torch.arange(1000.0)
    return made


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_device_gives_the_kernels_figures(reference, dtype):
    held = reference.to(dtype)
    held[1, 5], held[0, 1] = math.nan, 3
    kernel = comparison.compare(held, reference, 1e-12)
    assert kernel.range >= 1 and kernel.undefined == 1
    figures_agree(kernel, comparison.on_device(held, reference, 1e-12))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_changes_too(reference, dtype):
    before, after = reference.to(dtype), (reference + 1e-3).to(dtype)
    kernel = comparison.compare_change(before, after, reference, reference + 1e-3)
    assert kernel.moved and (kernel.lost or dtype is torch.float32)
    figures_agree(kernel, comparison.change_on_device(before, after, reference, reference + 1e-3))


def test_an_empty_tensor_has_no_errors():
    empty = comparison.on_device(torch.empty(0), torch.empty(0, dtype=torch.float64), 0.0)
    assert empty.numel == 0 and empty.error == 0 and not empty.integers


@pytest.mark.parametrize("size", [1e155, 1e200, 1e300])
def test_squares_that_a_double_does_not_hold_are_in_proportion(size):
    reference = torch.tensor([2.0, -2.0, 2.0, math.inf], dtype=torch.float64) * size
    held = torch.tensor([1.5, -1.0, 0.0, 0.0], dtype=torch.float64) * size
    kernel = comparison.compare(held, reference)
    assert kernel.error == pytest.approx(math.sqrt((0.25 + 1 + 4) / 12))
    figures_agree(kernel, comparison.on_device(held, reference, 0.0))
    assert math.isfinite(2 * kernel.squared_reference)  # with those of other tensors


def test_halves_are_no_whole_numbers_as_long_as_there_are_any():
    for each in (2.0**51 + 0.5, 2.0**52 - 0.5):
        kernel = comparison.compare(torch.zeros(1), torch.tensor([each], dtype=torch.float64))
        assert not kernel.integers
