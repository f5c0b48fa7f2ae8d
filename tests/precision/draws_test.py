"""Dropout draws the same elements in every format while precisions are compared on a device."""

from __future__ import annotations

import contextlib

import pytest
import torch
from mpnanny.precision import choose_precision
from mpnanny.precision.draws import same_draws
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

FORMS = {
    "functional": lambda x: functional.dropout(x, 0.3),
    "torch": lambda x: torch.dropout(x, 0.3, True),
    "module": nn.Dropout(0.3),
    "in place": lambda x: functional.dropout(x.clone(), 0.3, inplace=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_half_drops_what_fp32_drops(form):
    x = torch.rand(4096) + 1

    def dropped(dtype: torch.dtype) -> torch.Tensor:
        torch.manual_seed(3)
        with same_draws("cuda"):
            made = FORMS[form](x.to(dtype))
        assert made.dtype is dtype
        return made

    wide, low = dropped(torch.float32), dropped(torch.bfloat16)
    assert torch.equal(wide == 0, low == 0)
    assert 0.25 < float((wide == 0).float().mean()) < 0.35
    torch.testing.assert_close(wide[wide != 0], (x / 0.7)[wide != 0])
    assert torch.equal(low, (x.bfloat16().float() / 0.7 * (low != 0)).bfloat16())


def test_gradients_go_through_what_was_kept():
    x = torch.ones(512, requires_grad=True)
    with same_draws("cuda"):
        made = functional.dropout(x, 0.5)
    made.sum().backward()
    assert torch.equal(x.grad, made.detach())


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_drops_the_same_again(reentrant):
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
    x = torch.randn(16, 8, requires_grad=True)
    gradients = []
    for run in (lambda: model(x), lambda: checkpoint(model, x, use_reentrant=reentrant)):
        x.grad = None
        torch.manual_seed(4)
        with same_draws("cuda"):
            run().sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)


def test_attention_drops_nothing_and_evaluation_is_as_it_was():
    q = torch.randn(1, 2, 8, 16)
    plain = functional.scaled_dot_product_attention(q, q, q)
    with same_draws("cuda"):
        by_name = functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
        in_order = functional.scaled_dot_product_attention(q, q, q, None, 0.5)
        assert torch.equal(nn.Dropout(0.5).eval()(q), q)
    assert torch.equal(by_name, plain) and torch.equal(in_order, plain)


def test_the_cpu_is_left_as_it_is():
    assert isinstance(same_draws("cpu"), contextlib.nullcontext)


def test_units_of_a_model_made_of_library_modules_alone_are_found():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    with torch.no_grad():  # the first layer leaves FP16's range
        model[0].weight.mul_(5e4)
        model[2].weight.mul_(1e-4)
    answer = choose_precision(model, torch.randn(8, 16), device="h100", ways=["fp16-autocast"])
    assert {each["module"] for each in answer["layers"]} == {"0", "1", "2"}
    low = next(each for each in [answer, *answer["alternatives"]] if each["way"] == "fp16-autocast")
    assert low["error_all_low"]["output"] == "inf"
