"""CUDA's autocast on the CPU: which dtype comes out of what, as torch documents it."""

from __future__ import annotations

import pytest
import torch
from mpnanny.programs.policy import Policy, full_precision
from torch import nn
from torch.nn import functional

HALF, FULL = torch.float16, torch.float32


def on(dtype=HALF, name="cuda-autocast", fp8="tensor", precision="fp16"):
    policy = Policy(name, precision, "cpu", fp8)
    return policy


# Operator on FP16 values -> dtype under CUDA's autocast.
TO_FULL = {
    "square": torch.square,  # is pow
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "exp": torch.exp,
    "log": lambda x: x.abs().log(),
    "pow": lambda x: x**2,
    "rsqrt": lambda x: x.abs().rsqrt(),
    "sum": lambda x: x.sum(),
    "sum over a dimension": lambda x: x.sum(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "prod": lambda x: x.prod(),
    "norm": lambda x: x.norm(),
    "vector_norm": torch.linalg.vector_norm,
    "layer_norm": lambda x: functional.layer_norm(x, (4,)),
    "cosine_similarity": lambda x: functional.cosine_similarity(x, x),
    "mse_loss": lambda x: functional.mse_loss(x, x + 1),
    "cross_entropy": lambda x: functional.cross_entropy(x, torch.zeros(4, dtype=torch.long)),
    "softplus": functional.softplus,
    "cdist": lambda x: torch.cdist(x, x),
}
STAYS = {
    "mean": lambda x: x.mean(),
    "sqrt": lambda x: x.abs().sqrt(),
    "sigmoid": torch.sigmoid,
    "gelu": functional.gelu,
    "add": lambda x: x + 1,
    "var": lambda x: x.var(),
    "avg_pool1d": lambda x: functional.avg_pool1d(x[None], 2),
    "max": lambda x: x.max(),
}
TO_HALF = {
    "matmul": lambda x: x @ x,
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
    "linear": lambda x: functional.linear(x, x),
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "conv1d": lambda x: functional.conv1d(x[None], x[:, :, None]),
    "mv": lambda x: torch.mv(x, x[0]),
    "addmm": lambda x: torch.addmm(x, x, x),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]),
}


@pytest.mark.parametrize("name", TO_FULL)
def test_these_run_in_fp32(name):
    policy = on()
    with policy.installed(), policy.region():
        assert TO_FULL[name](torch.randn(4, 4).half()).dtype is FULL


@pytest.mark.parametrize("name", STAYS)
def test_these_keep_the_dtype_they_get(name):
    policy = on()
    with policy.installed(), policy.region():
        assert STAYS[name](torch.randn(4, 4).half()).dtype is HALF
        assert STAYS[name](torch.randn(4, 4)).dtype is FULL


@pytest.mark.parametrize("name", TO_HALF)
def test_these_run_in_the_low_dtype(name):
    policy = on()
    with policy.installed(), policy.region():
        assert TO_HALF[name](torch.randn(4, 4)).dtype is HALF
        assert TO_HALF[name](torch.randn(4, 4).half()).dtype is HALF


def test_fp64_is_left_alone_and_mixed_arguments_take_the_widest():
    policy = on()
    with policy.installed(), policy.region():
        assert torch.exp(torch.ones(2, dtype=torch.float64)).dtype is torch.float64
        a, b = torch.randn(4).half(), torch.randn(4)
        assert torch.dot(a, b).dtype is FULL
        assert torch.dot(a, a).dtype is HALF
        assert torch.cat([a, b]).dtype is FULL


def test_binary_cross_entropy_is_banned_as_on_cuda():
    policy = on()
    with policy.installed(), policy.region(), pytest.raises(RuntimeError, match="not allowed"):
        functional.binary_cross_entropy(torch.rand(3), torch.ones(3))


def test_regions_for_cuda_in_the_code_mean_the_cpu():
    policy = on()
    with policy.installed(), policy.region():
        assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
        with torch.autocast("cuda", enabled=False):
            assert not torch.is_autocast_enabled("cuda")
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is FULL
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
        assert torch.get_autocast_dtype("cuda") is HALF


def test_everything_is_as_before_afterwards():
    x = torch.randn(4, 4).half()
    ways = (torch.autocast.__init__, torch.is_autocast_enabled, torch.get_autocast_dtype)
    with torch.autocast("cpu", torch.float16):
        before = [way(x).dtype for way in TO_FULL.values()]
    policy = on()
    with policy.installed(), policy.region():
        TO_FULL["exp"](x)
    with pytest.raises(ZeroDivisionError), policy.installed(), policy.region():
        1 / 0  # noqa: B018
    with full_precision("cpu"):
        pass
    with torch.autocast("cpu", torch.float16):
        assert [way(x).dtype for way in TO_FULL.values()] == before
    assert (torch.autocast.__init__, torch.is_autocast_enabled, torch.get_autocast_dtype) == ways
    assert not torch.is_autocast_enabled("cpu")


def test_a_weight_that_is_used_twice_gets_its_gradient_as_with_torchs_cache():
    """Both uses add up in FP16 before they are cast: 2048 + 1 is 2048."""
    policy = on()
    weight = nn.Parameter(torch.ones(1, 1))
    with policy.installed(), policy.region():
        out = torch.einsum("ij,jk->ik", torch.full((1, 1), 2048.0), weight)
        out = out + torch.einsum("ij,jk->ik", torch.ones(1, 1), weight)
    out.backward()
    assert weight.grad is not None and weight.grad.dtype is FULL
    assert weight.grad.item() == 2048.0


def test_full_precision_switches_the_codes_own_regions_off():
    with full_precision("cpu"), torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is FULL


@pytest.mark.parametrize("granularity", ["tensor", "row", "block"])
def test_fp8_linear_layers_are_off_by_what_fp8_must_lose(granularity):
    torch.manual_seed(0)
    layer, x = nn.Linear(256, 64), torch.randn(32, 256, requires_grad=True)
    policy = Policy("cuda-autocast", "fp8", "cpu", granularity)
    with policy.installed(), policy.region():
        y = layer(x)
    y.float().square().mean().backward()
    gradient = x.grad
    x.grad = None
    exact = layer(x)
    exact.square().mean().backward()
    assert y.dtype is torch.bfloat16 and gradient is not None and x.grad is not None
    error = ((y - exact).norm() / exact.norm()).item()
    assert 0.01 < error < 0.06  # two E4M3 roundings of 2^-4 at the most, 0.026 in the mean
    assert 0.01 < ((gradient - x.grad).norm() / x.grad.norm()).item() < 0.12


def test_fp8_scales_keep_large_rows_from_small_ones():
    x = torch.ones(2, 128)
    x[1] = 1e-6
    from mpnanny.programs.eight_bit import rounded

    assert rounded(x, torch.float8_e4m3fn, "tensor")[1].sum().item() == 0
    assert rounded(x, torch.float8_e4m3fn, "row")[1].sum().item() == pytest.approx(1.28e-4, rel=0.1)
