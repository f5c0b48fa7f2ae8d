"""Comparisons of tensors that the kernels cannot reach: the same figures by torch's operators."""

from __future__ import annotations

import math

import pytest
import torch
from mpnanny.fp64 import comparison


def on_device(monkeypatch, function, *tensors):
    with monkeypatch.context() as patch:
        patch.setattr(comparison, "on_host", lambda _: False)
        return function(*tensors)


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
def test_a_device_gives_the_kernels_figures(reference, dtype, monkeypatch):
    held = reference.to(dtype)
    held[1, 5], held[0, 1] = math.nan, 3
    kernel = comparison.compare(held, reference)
    assert kernel.range >= 1 and kernel.undefined == 1
    figures_agree(kernel, on_device(monkeypatch, comparison.compare, held, reference))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_changes_too(reference, dtype, monkeypatch):
    before, after = reference.to(dtype), (reference + 1e-3).to(dtype)
    kernel = comparison.compare_change(before, after, reference, reference + 1e-3)
    assert kernel.moved and (kernel.lost or dtype is torch.float32)
    figures_agree(
        kernel,
        on_device(
            monkeypatch, comparison.compare_change, before, after, reference, reference + 1e-3
        ),
    )


def test_an_empty_tensor_has_no_errors(monkeypatch):
    empty = torch.empty(0), torch.empty(0, dtype=torch.float64)
    for found in (comparison.compare(*empty), on_device(monkeypatch, comparison.compare, *empty)):
        assert found.numel == 0 and found.error == 0 and not found.integers


@pytest.mark.parametrize("size", [1e155, 1e200, 1e300])
def test_squares_that_a_double_does_not_hold_are_in_proportion(size, monkeypatch):
    reference = torch.tensor([2.0, -2.0, 2.0, math.inf], dtype=torch.float64) * size
    held = torch.tensor([1.5, -1.0, 0.0, 0.0], dtype=torch.float64) * size
    kernel = comparison.compare(held, reference)
    assert kernel.error == pytest.approx(math.sqrt((0.25 + 1 + 4) / 12))
    figures_agree(kernel, on_device(monkeypatch, comparison.compare, held, reference))
    assert math.isfinite(2 * kernel.squared_reference)  # with those of other tensors


def test_halves_are_no_whole_numbers_as_long_as_there_are_any():
    for each in (2.0**51 + 0.5, 2.0**52 - 0.5):
        kernel = comparison.compare(torch.zeros(1), torch.tensor([each], dtype=torch.float64))
        assert not kernel.integers


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn])
def test_of_what_was_flushed_it_is_told_what_matters_and_what_the_type_could_hold(
    dtype, monkeypatch
):
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    reference = torch.tensor([1.0, smallest * 2, smallest / 4, 0.5, 0.25], dtype=torch.float64)
    held = torch.tensor([1.0, 0, 0, 0, 0]).to(dtype)
    kernel = comparison.compare(held, reference)
    counts = kernel.flushed, kernel.flushed_that_matter, kernel.flushed_in_range
    assert counts == (4, 2 + (2 * smallest > 0.006), 3)
    assert kernel.flushed_that_matter_in_range == kernel.flushed_that_matter
    figures_agree(kernel, on_device(monkeypatch, comparison.compare, held, reference))


def test_few_that_were_flushed_are_not_looked_at_again():
    reference = torch.ones(100, dtype=torch.float64)
    reference[:30] = 1e-9  # 30 of 100 are not more than 0.3, and little of the error
    held = torch.where(reference < 1e-3, 0.0, reference + 1).half()
    kernel = comparison.compare(held, reference)
    assert (kernel.flushed, kernel.flushed_in_range, kernel.flushed_that_matter) == (30, 0, 0)
    reference[30] = 1e-9
    held[30] = 0
    assert comparison.compare(held, reference).flushed_in_range == 0  # of FP16
    assert comparison.compare(held.float(), reference).flushed_in_range == 31
