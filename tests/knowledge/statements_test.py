"""Statements of the pages about torch itself, measured: each failed here once, or was written the
wrong way round.
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "knowledge" / "cases"


def page(case: str) -> str:
    return " ".join((CASES / f"{case}.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize(
    ("first_gradient", "growth_interval", "applied"),
    [(1.0, 1, 0.5), (float("inf"), 1000, 2.0)],
    ids=["after growth", "after an overflow"],
)
def test_update_between_two_steps_applies_the_other_gradient_with_the_wrong_scale(
    first_gradient: float, growth_interval: int, applied: float
) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024, growth_interval=growth_interval)
    first, second = (torch.nn.Parameter(torch.ones(())) for _ in range(2))
    optimizers = [torch.optim.SGD([weight], lr=1.0) for weight in (first, second)]
    scaler.scale(first * first_gradient).backward()
    scaler.scale(second * 1.0).backward()
    scaler.step(optimizers[0])
    scaler.update()
    scaler.step(optimizers[1])
    assert 1.0 - second.item() == applied
    text = page("scaler-update-per-optimizer-or-microbatch")
    assert "times 0.5 after growth and times 2 after an overflow" in text


@pytest.mark.parametrize(
    "case", ["contrastive-logit-scale-unbounded", "sd21-attention-qk-overflow"]
)
def test_float_operands_are_cast_back_under_autocast(case: str) -> None:
    a = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a.float() @ a.float()).dtype == torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            assert (a.float() @ a.float()).dtype == torch.float32
    good = (CASES / f"{case}.md").read_text(encoding="utf-8").split("# good", 1)[1]
    assert 'torch.autocast("cuda", enabled=False)' in good


def test_no_good_block_multiplies_floats_where_autocast_casts_them_back() -> None:
    for path in sorted(CASES.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        good = text.split("# good", 1)[-1] if "# good" in text else ""
        product = any(
            re.search(r"float\(\)[^@]* @ [^@]*float\(\)", line) for line in good.splitlines()
        )
        assert not product or "enabled=False" in good, path.name


def test_ctc_loss_is_on_the_fp32_list_of_the_cpu_only() -> None:
    log_probs = torch.randn(5, 1, 3).log_softmax(-1)
    arguments = (torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert log_probs.bfloat16().log_softmax(-1).dtype == torch.bfloat16
        loss = torch.nn.functional.ctc_loss(log_probs.bfloat16(), *arguments)
        assert loss.dtype == torch.float32
    lists = json.loads((ROOT / "engines/check/data/autocast_ops.json").read_text())
    cuda = json.dumps(lists["devices"]["CUDA"]["fp32"])
    assert "ctc_loss" not in cuda and "log_softmax" in cuda
    assert "`log_softmax` stays 16 bit and `ctc_loss` casts up" in page("ctc-loss-half")


@pytest.mark.parametrize("case", ["adam-eps-underflow-fp16", "peft-fp16-adapter-loss-zero"])
@pytest.mark.parametrize("form", ["foreach", "fused", "loop"])
def test_only_the_fused_adam_survives_fp16_weights(case: str, form: str) -> None:
    weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float16))
    arguments = {"foreach": False} if form == "loop" else {form: True}
    optimizer = torch.optim.Adam([weight], lr=1e-3, **arguments)
    weight.grad = torch.tensor([0.0, 1e-5, 0.5], dtype=torch.float16)
    optimizer.step()
    assert bool(torch.isfinite(weight).all()) == (form == "fused")
    assert "`fused=True`" in page(case)


def test_the_update_with_moments_in_bf16_that_the_page_names() -> None:
    def update(dtype: torch.dtype, steps: int) -> float:
        weight = torch.nn.Parameter(torch.zeros(1, dtype=dtype))
        optimizer = torch.optim.Adam([weight], lr=1.0)
        for step in range(steps):
            weight.data.zero_()
            weight.grad = torch.full_like(weight, 1.0 if step < 100 else 0.01)
            optimizer.step()
        return -weight.item()

    assert update(torch.bfloat16, 1000) == pytest.approx(0.026, abs=5e-4)
    assert update(torch.float32, 1000) == pytest.approx(0.040, abs=5e-4)
    text = page("bf16-optimizer-moments")
    assert "0.026 of the learning rate at step 1000" in text


def test_multihead_attention_returns_nan_unless_weights_are_not_needed() -> None:
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 3, 8)
    padding = torch.tensor([[False] * 3, [True] * 3])
    nan = {
        needed: int(attention(x, x, x, padding, need_weights=needed)[0].isnan().sum())
        for needed in (True, False)
    }
    assert nan == {True: 24, False: 0}
    assert "24 of 48 outputs" in page("fully-masked-row-softmax-nan")


def test_torchs_layer_norm_adds_eps_in_fp32() -> None:
    zeros = torch.zeros(1, 8, dtype=torch.float16)
    assert torch.nn.functional.layer_norm(zeros, (8,), eps=1e-12).eq(0).all()
    assert "PyTorch 2.13 on a CPU gives zeros" in page("layernorm-eps-1e-12-in-half")


def test_the_largest_bound_below_one() -> None:
    for dtype, exponent in ((torch.bfloat16, -8), (torch.float16, -11)):
        assert torch.tensor(1 - 2.0**exponent, dtype=dtype).item() < 1.0
        assert torch.tensor(1 - 2.0 ** (exponent - 1), dtype=dtype).item() == 1.0
    assert "the largest bound that works" in page("clamp-one-minus-eps-noop")


def test_one_region_for_a_pass_without_and_one_with_gradients() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            model(torch.ones(1, 2))
        model(torch.ones(1, 2)).sum().backward()
    with_gradient = sum(p.grad is not None for p in model.parameters())
    assert with_gradient == 6
    assert "all 6 parameters" in page("autocast-cache-no-grad-lost-gradients")


def test_pages_use_no_deprecated_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.amp.GradScaler("cpu")
    for path in sorted(CASES.glob("*.md")):
        good = path.read_text(encoding="utf-8").split("# good", 1)[-1]
        for old in ("torch_dtype=", "torch.cuda.amp.", "torch.cpu.amp."):
            assert old not in good, f"{path.name}: {old}"


def test_a_normalised_zero_row_has_a_gradient_that_half_can_hold() -> None:
    def gradient(eps: float) -> torch.Tensor:
        x = torch.zeros(1, 4, dtype=torch.float16, requires_grad=True)
        torch.nn.functional.normalize(x.float(), dim=-1, eps=eps).sum().backward()
        assert x.grad is not None
        return x.grad

    assert torch.isfinite(gradient(1e-4)).all()
    assert not torch.isfinite(gradient(1e-6)).any()
    text = (CASES / "f-normalize-eps-in-half.md").read_text(encoding="utf-8")
    assert "eps=1e-4" in text.split("# good", 1)[1]


def test_what_a_mask_constant_above_the_range_does() -> None:
    x = torch.zeros(2, dtype=torch.float16)
    mask = torch.tensor([True, False])
    with pytest.raises(RuntimeError, match="c10::Half without overflow"):
        x.masked_fill(mask, -1e9)
    assert torch.where(mask, -1e9, x)[0].item() == float("-inf")
    assert "c10::Half without overflow" in page("mask-fill-constant-overflows-half")


def test_the_message_of_mixed_scalers() -> None:
    weight = torch.nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    one, other = (torch.amp.GradScaler("cpu", init_scale=8.0) for _ in range(2))
    one.scale(weight * 1.0).backward()
    other.scale(torch.ones(()))
    one.step(optimizer)
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        other.update()
    assert "recorded prior to update" in page("scaler-unscales-with-another-scale")


def test_a_step_that_is_skipped_by_hand_needs_unscale_before_update() -> None:
    weight = torch.nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(weight * 1.0).backward()
    with pytest.raises(AssertionError, match="prior to update"):
        scaler.update()
    scaler.unscale_(optimizer)
    scaler.update()
    assert "call `unscale_(optimizer)` before `update()`" in page("scaler-step-without-update")


@pytest.mark.parametrize(("cube", "first"), [("own", 256), ("constant first", None)])
def test_where_gelus_cube_has_a_nan_gradient(cube: str, first: int | None) -> None:
    x = torch.arange(1, 301, dtype=torch.float16, requires_grad=True)
    term = 0.044715 * (x * x * x) if cube == "own" else 0.044715 * x * x * x
    (0.5 * x * (1 + torch.tanh(0.79788 * (x + term)))).sum().backward()
    assert x.grad is not None
    nan = torch.nonzero(x.grad.isnan())
    assert (int(nan[0]) + 1 if len(nan) else None) == first
    assert "NaN from 256 on" in page("gelu-cubic-term-fp16-suspect")
