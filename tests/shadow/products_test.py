"""References of products that are held in 16 bits: FP32 where that is as good, else FP64."""

from __future__ import annotations

import pytest
import torch
from finds import inputs
from mpnanny.fp64 import products
from mpnanny.fp64.places import Places
from mpnanny.shadow.changes import Changes
from mpnanny.shadow.engine import ShadowMode
from torch import nn
from torch.nn import functional as F


def raised(error: Exception) -> None:
    raise error


@pytest.fixture
def mode():
    torch.manual_seed(0)
    return ShadowMode(Places({}), Changes(lambda memory: None), raised, 1 << 30)


@pytest.fixture
def narrow(monkeypatch):
    """How often FP32 was tried, and whether it was enough."""
    answers = []
    real = products.in_float32

    def counted(*arguments, **keywords):
        made = real(*arguments, **keywords)
        answers.append(made is not None)
        return made

    monkeypatch.setattr(products, "in_float32", counted)
    return answers


def bf16(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape) * scale).bfloat16().requires_grad_()


PRODUCTS = {
    "mm": lambda x: x @ x.t(),
    "addmm": lambda x: F.linear(x, x, x[:, 0]),
    "bmm": lambda x: x[None] @ x[None],
    "baddbmm": lambda x: torch.baddbmm(x[None], x[None], x[None]),
    "convolution": lambda x: F.conv2d(x[None, None], x[None, None, :3, :3], x[0, :1]),
    "attention": lambda x: F.scaled_dot_product_attention(*[x[None, None]] * 3, is_causal=True),
}


@pytest.mark.parametrize("is_slow", [True, False])
def test_a_device_that_is_slow_in_fp64_does_products_in_fp32_without_tf32(
    mode, narrow, monkeypatch, is_slow
):
    monkeypatch.setattr(products, "on_host", lambda _: False)
    monkeypatch.setattr(products, "_is_float64_slow", lambda _: is_slow)
    monkeypatch.setattr(products, "_is_in_range", lambda _: pytest.fail("a device was waited for"))
    precisions = []
    product = torch.ops.aten.mm.default

    def seen(*arguments):
        precisions.append(torch.backends.cuda.matmul.fp32_precision)
        return product(*arguments)

    x = bf16(16, 16).detach()
    with mode:
        made = x @ x.t()
    found = mode.references.of(made)
    exact = x.double() @ x.double().t()
    assert found.dtype is torch.float64
    assert torch.allclose(found, exact, rtol=1e-5)
    assert narrow == ([True] if is_slow else [])
    assert torch.equal(found, exact) != is_slow
    with products.full_float32():
        products.in_float32(seen, (x.double(), x.double()), {}, in_range=True)
    assert precisions == ["ieee"]


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_in_16_bits_and_its_derivative_are_nearly_those_of_fp64(mode, narrow, name):
    x = bf16(16, 16)
    exact = x.detach().double().requires_grad_()
    PRODUCTS[name](exact).pow(2).sum().backward()
    with mode:
        PRODUCTS[name](x).pow(2).sum().backward()
    assert len(narrow) >= 2 and all(narrow)
    reference = mode.references.of(x.grad)
    assert reference.dtype is torch.float64
    error = (reference - exact.grad).norm() / exact.grad.norm()
    assert 0 < error < 2.0**-20


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_fp64_where_fp32_has_no_such_numbers(mode, narrow, scale):
    x = bf16(8, 8, scale=scale)
    with mode, torch.no_grad():
        made = x @ x
    exact = x.detach().double() @ x.detach().double()
    assert narrow == [False]
    assert torch.equal(mode.references.of(made), exact) and exact.isfinite().all()
    assert mode.tape.rounding(mode.references.entry(made)) == 0


def test_fp64_where_the_product_is_held_in_fp32_or_the_program_lets_fp32_be_less(mode, narrow):
    x = torch.randn(8, 8)
    try:
        with mode:
            x @ x
            torch.set_float32_matmul_precision("medium")
            x.bfloat16() @ x.bfloat16()
    finally:
        torch.set_float32_matmul_precision("highest")
    assert narrow == []


class Attention(nn.Module):
    """The gradient of the key's bias is an exact 0: it moves all scores of a query alike."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).mT
        return scores.softmax(-1) @ self.value(x)


def test_what_is_0_but_for_the_rounding_of_such_a_product_is_noise(train):
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Flatten(2), nn.Linear(36, 16), Attention()
    )

    def loss_of(_step: int) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return (model(torch.randn(8, 3, 8, 8)).float() - 1).square().mean()

    assert train(model, loss_of).all == []


def test_the_same_product_in_two_orders_differs_by_noise(train):
    model = nn.Linear(64, 64)

    def loss_of(_step: int) -> torch.Tensor:
        x = inputs(32, 64)
        with torch.autocast("cpu", torch.bfloat16):
            one = model(x)
            flipped = F.linear(x.flip(1), model.weight.flip(1), model.bias)
        return one.float().square().mean() + (one - flipped).float().square().mean()

    assert train(model, loss_of).all == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_cancellation_after_a_product_is_none(train, dtype):
    model = nn.Linear(8, 8).to(dtype)
    nn.init.constant_(model.bias, 20.0)

    def loss_of(_step: int) -> torch.Tensor:
        score = model((inputs() * 0.1).to(dtype))
        variance = score.square().mean(0) - score.mean(0).square()
        return variance.float().sum()

    first = train(model, loss_of, steps=1).first()
    assert (first["kind"], first["precision"]) == ("amplified", "proven")
    assert first["line"].startswith("variance = ")
