"""Facts about torch that pages state and that somebody found stated wrongly: each is run here."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn


def test_a_batch_without_labels_has_a_nan_loss_and_gradients_of_zero() -> None:
    """cutoff-leaves-no-label-tokens"""
    logits = torch.randn(5, 7, requires_grad=True)
    loss = F.cross_entropy(logits, torch.full((5,), -100))
    loss.backward()
    assert loss.isnan() and logits.grad is not None and (logits.grad == 0).all()


def test_grad_scaler_does_not_skip_a_batch_without_labels_and_a_masked_mean_is_nan() -> None:
    """cutoff-leaves-no-label-tokens"""
    linear = nn.Linear(3, 7)
    optimizer = torch.optim.SGD(linear.parameters(), lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    loss = F.cross_entropy(linear(torch.randn(5, 3)), torch.full((5,), -100))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 65536.0 and linear.weight.isfinite().all()
    logits, mask = torch.randn(5, 7, requires_grad=True), torch.zeros(5)
    each = F.cross_entropy(logits, torch.zeros(5, dtype=torch.long), reduction="none")
    ((each * mask).sum() / mask.sum()).backward()
    assert logits.grad is not None and logits.grad.isnan().any()


def test_a_sum_of_halves_under_autocast_overflows_on_a_cpu() -> None:
    """dice-loss-sum-overflows"""
    with torch.autocast("cpu", torch.float16):
        assert torch.ones(300, 300).half().sum().isinf()


def test_a_dead_relu_passes_no_gradient_to_either_side_of_it() -> None:
    """dying-relu-network"""
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
    nn.init.constant_(model[0].bias, -100.0)
    hidden = model[1](model[0](torch.rand(16, 8)))
    hidden.retain_grad()
    (model[2](hidden) - 10).square().mean().backward()
    assert (hidden.grad != 0).any()
    assert (model[2].weight.grad == 0).all() and (model[0].weight.grad == 0).all()


def test_the_kl_of_equal_logits_in_bf16_is_zero_only_between_logarithms() -> None:
    """ce-on-bf16-logits-with-fsdp2-policy"""
    torch.manual_seed(0)
    logits = (3 * torch.randn(64, 4096)).bfloat16()
    logs, shares = logits.log_softmax(-1), logits.softmax(-1)
    assert F.kl_div(logs, shares, reduction="batchmean").abs() > 1e-6
    assert F.kl_div(logs, logs, log_target=True, reduction="batchmean") == 0


def test_adam_on_half_weights_by_the_size_of_the_gradient() -> None:
    """clip-load-fp16-weights-adam-nan"""

    def step(gradient: float) -> torch.Tensor:
        weight = nn.Parameter(torch.ones(1).half())
        optimizer = torch.optim.Adam([weight], lr=1e-5)
        weight.grad = torch.full((1,), gradient).half()
        optimizer.step()
        return weight.detach()

    assert step(0.0).isnan() and step(1e-4).isinf() and step(1e-2).isfinite()


@pytest.mark.parametrize(
    ("dtype", "rows"), [(torch.float16, 3), (torch.bfloat16, 0), (torch.float32, 0)]
)
def test_two_masks_of_finfo_min_make_nan_rows_in_fp16_only(dtype: torch.dtype, rows: int) -> None:
    """double-finfo-min-mask-overflow"""
    draw = torch.Generator().manual_seed(0)
    scores = (torch.randn(8, 8, generator=draw) - 20).to(dtype)
    low = torch.finfo(dtype).min
    causal = torch.ones(8, 8).triu(1).to(dtype)
    padding = (torch.arange(8) < 3).expand(8, 8).to(dtype)
    bias = causal * low + padding * low
    assert bias.isinf().sum() == 3
    assert int((scores + bias).softmax(-1).isnan().any(-1).sum()) == rows


def test_below_half_the_smallest_half_is_zero() -> None:
    """deepspeed-model-dtype-differs-from-config"""
    assert torch.tensor(2.9e-8).half() == 0 and torch.tensor(3.1e-8).half() > 0


def test_an_update_of_1e_6_moves_small_bf16_weights_only() -> None:
    """bf16-weights-update-below-half-ulp"""
    weights = torch.tensor([1e-4, 0.1]).bfloat16()
    moved = weights + torch.tensor(1e-6).bfloat16() != weights
    assert moved.tolist() == [True, False]


def test_an_average_kept_in_bf16_stands_still() -> None:
    """ema-in-half-never-moves"""
    average = copy.deepcopy(nn.Linear(2, 2).bfloat16())
    with pytest.raises(RuntimeError):
        average.weight.mul_(0.9999)  # a parameter outside of no_grad
    held = torch.zeros(1, dtype=torch.bfloat16)
    target = torch.full((1,), 0.5, dtype=torch.bfloat16)
    for _ in range(5000):
        held.mul_(0.9999).add_(target, alpha=1e-4)
    assert held.item() == 0.015625


def test_adam_moves_rows_of_an_embedding_that_the_batch_has_not() -> None:
    """embedding-spikes-need-embed-norm"""
    table = nn.Embedding(2, 1)
    optimizer = torch.optim.Adam(table.parameters(), lr=0.1)
    table(torch.tensor([0])).sum().backward()
    optimizer.step()
    before = table.weight[0].item()
    optimizer.zero_grad()
    table(torch.tensor([1])).sum().backward()
    optimizer.step()
    assert table.weight[0].item() != before


def test_a_softmax_that_takes_away_twice_the_maximum_of_negative_scores_is_nan() -> None:
    """flash-attention-bf16-biased-rounding"""
    scores = torch.full((1, 4), -120.0)
    shares = torch.exp(scores - 2 * scores.amax(-1, keepdim=True).clamp(min=0))
    assert (shares / shares.sum()).isnan().all()


def test_the_gradient_of_a_3_norm_in_fp16() -> None:
    """fp16-norm-intermediate-underflow"""

    def gradient(value: float, p: float, count: int) -> torch.Tensor:
        x = torch.full((count,), value).half().requires_grad_()
        x.norm(p).backward()
        assert x.grad is not None
        return x.grad

    assert gradient(1e-4, 3, 1).isnan().all()
    assert gradient(1e-3, 3, 1).isinf().all()
    assert gradient(4e-3, 3, 1).item() == 1.0
    for p in (1.0, 1.5, 2.0):
        assert gradient(1e-4, p, 10).isfinite().all()


@pytest.mark.parametrize(("weight", "moves"), [(0.03, True), (0.032, False)])
def test_adam_at_1e_5_moves_fp16_weights_below_2_to_the_minus_5(weight: float, moves: bool) -> None:
    """fp16-weights-train-nothing"""
    parameter = nn.Parameter(torch.full((1,), weight).half())
    before = parameter.item()
    optimizer = torch.optim.Adam([parameter], lr=1e-5, eps=1e-4)
    for _ in range(50):
        parameter.grad = torch.full_like(parameter, 0.5)
        optimizer.step()
    assert (parameter.item() != before) is moves


def test_adamw_with_its_own_eps_breaks_fp16_weights_with_small_gradients() -> None:
    """fp16-weights-train-nothing"""
    parameter = nn.Parameter(torch.full((8,), 0.5).half())
    optimizer = torch.optim.AdamW([parameter], lr=1e-5)
    parameter.grad = torch.full((8,), 1e-4).half()
    optimizer.step()
    assert not parameter.isfinite().any()


def test_steps_of_the_fp8_formats_between_1_and_2() -> None:
    """fp8-recipes"""

    def steps(dtype: torch.dtype) -> int:
        values = torch.arange(256, dtype=torch.uint8).view(dtype).float()
        return int(((values >= 1) & (values < 2)).sum())

    assert steps(torch.float8_e4m3fn) == 8 and steps(torch.float8_e5m2) == 4


def test_a_tiny_amax_breaks_the_scale_only_where_it_is_turned_over() -> None:
    """fp8-zero-amax-gives-nan-scale"""
    x = torch.tensor([[1e-37, 0.0]])
    largest = x.abs().amax(-1, keepdim=True)
    assert (x / (largest / 448)).isfinite().all() and (x * (448 / largest))[0, 1].isnan()


def test_the_fast_path_of_attention_makes_nan_of_a_masked_row() -> None:
    """fully-masked-row-softmax-nan"""
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    padding = torch.tensor([[False] * 3, [True] * 3])
    try:
        with torch.no_grad():
            fast = attention(x, x, x, padding, need_weights=False)[0]
            torch.backends.mha.set_fastpath_enabled(False)
            slow = attention(x, x, x, padding, need_weights=False)[0]
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert fast.isnan().sum() == 24 and slow.isnan().sum() == 0


def test_current_scaling_keeps_the_other_channels_beside_an_outlier() -> None:
    """fp8-swiglu-outlier-amplification"""
    x = torch.rand(256, 64, generator=torch.Generator().manual_seed(0)) + 0.5
    x[0, 0] = 250.0
    scale = x.abs().max() / 448
    held = (x / scale).to(torch.float8_e4m3fn).float() * scale
    assert ((held - x)[:, 1:].norm() / x[:, 1:].norm()) < 0.03
