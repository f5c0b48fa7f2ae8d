"""Answers that were wrong once: each test is the smallest model that showed it."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from asking import diff, run
from exported import scripted
from mpnanny.base.safetensors import save
from torch import Tensor, nn

WORDS = ["float32[64,128]~normal(0,1)"]


class MaskedOut(nn.Module):
    """Infinities that are meant so leave the model."""

    def forward(self, x: Tensor) -> Tensor:
        return x.masked_fill(x > 0, float("-inf"))


class ZeroByDesign(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights = x.softmax(-1)
        return weights, weights.sum(-1) - 1.0


class Signs(nn.Module):
    """Values that BF16 makes equal have no side: a decision, and no error of a value."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sign((x + 64.0) - (x.flip(0) + 64.0)) * 1e-3 + x


class NanInBoth(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sqrt(x)


class NanWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([float("nan"), *[1.0] * 127]))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.scale).relu()


class PartOfTheOutput(nn.Module):
    """What is wrong is one row of 64."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 2.0
        y[0] += 300.0
        y[0] -= 300.0
        return y


class Attention(nn.Module):
    """The positions are wrong in BF16; dropout that is off draws nothing."""

    def forward(self, x: Tensor) -> Tensor:
        at = torch.arange(x.shape[1], dtype=x.dtype)[None, :, None] + torch.zeros_like(x)
        q = torch.sin(at) * 8.0 + 0.0 * x
        return nn.functional.scaled_dot_product_attention(q, q, x)


def written_constant(x: Tensor) -> Tensor:
    total = torch.zeros(128)
    total += x.sum(0)
    return x + total


def answer(model: Any, folder: pathlib.Path, words: list[str] = WORDS) -> dict[str, Any]:
    file = folder / "model.pt"
    torch.jit.save(model, str(file))
    code, found, err = diff(file, words, "bf16", "pure")
    assert found, (code, err)
    return found


@pytest.mark.parametrize("model", [MaskedOut(), ZeroByDesign(), Signs()])
def test_is_clean(model, tmp_path, worker):
    found = answer(scripted(model), tmp_path)
    assert found["verdict"] == "clean", found.get("first_bad")


def test_nan_is_broken_where_fp32_has_it_too(tmp_path, worker):
    found = answer(scripted(NanInBoth()), tmp_path)
    assert found["verdict"] == "broken"
    assert found["first_bad"]["op"] == "aten.sqrt"


def test_weights_that_are_not_finite_are_named_where_they_are_used(tmp_path, worker):
    found = answer(scripted(NanWeights()), tmp_path)
    assert found["verdict"] == "broken"
    assert found["first_bad"]["op"] == "aten.mul.Tensor"
    assert found["first_bad"]["precision"] == "not_tested"  # it may have broken them before


def test_the_error_of_an_output_is_its_own(tmp_path, worker):
    found = answer(scripted(PartOfTheOutput()), tmp_path)
    (reach,) = found["first_bad"]["reaches"]
    assert reach["error"] == found["output"][0]["error"] < found["first_bad"]["accumulated"] / 4


def test_attention_does_not_hide_the_error_before_it(tmp_path, worker):
    found = answer(scripted(Attention()), tmp_path, ["float32[1,600,8]~normal(0,1)"])
    assert found["verdict"] == "degraded"
    assert found["output"][0]["error"] > 0.05


def test_a_constant_that_a_run_writes_is_new_in_the_next(tmp_path, worker):
    made = torch.jit.trace(written_constant, torch.randn(64, 128), check_trace=False)
    found = answer(made, tmp_path)
    assert found["verdict"] == "clean", found.get("first_bad")


def test_an_empty_tensor_of_a_file_is_not_the_next_one(tmp_path, worker):
    values = torch.randn(64, 128)
    save(tmp_path / "batch.safetensors", {"a": torch.zeros(0), "b": values}, {})
    words = [f"{tmp_path / 'batch.safetensors'}#a", f"{tmp_path / 'batch.safetensors'}#b"]

    class Both(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return b * (1.0 + a.sum())

    file = tmp_path / "model.pt"
    torch.jit.save(scripted(Both()), str(file))
    _, found, err = diff(file, words, "bf16", "pure")
    assert found, err
    absmax = max(each["absmax"] for each in found["layers"])
    assert absmax == pytest.approx(values.abs().max().item(), rel=1e-2)


class Softmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(-1)


def test_what_met_no_16_bits_is_not_called_clean(tmp_path, worker):
    file = tmp_path / "model.pt"
    torch.jit.save(scripted(Softmax()), str(file))
    words = ["diff", "--model", file, "--input", WORDS[0], "--dtype", "fp16", "--policy"]
    _, told, err = run(*words, "cuda-autocast")
    assert "not established: 0 of 1 operators ran in FP16: nothing was tested." in told, err
    assert ": clean." in run(*words, "pure")[1]
