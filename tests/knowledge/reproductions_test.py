"""Executes every reproduction of knowledge/cases in one interpreter: broken() fails, fixed() does
not.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import re
from pathlib import Path
from types import ModuleType

import pytest
import torch

CASES = Path(__file__).resolve().parents[2] / "knowledge" / "cases"
REPRODUCTIONS = sorted(CASES.glob("*.py"))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("case_" + path.stem.replace("-", "_"), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_shape(numbers: object) -> None:
    assert isinstance(numbers, dict)
    assert isinstance(numbers.get("failed"), bool)
    named = {name: value for name, value in numbers.items() if name != "failed"}
    assert named, "a reproduction returns the numbers that its page quotes"
    assert all(isinstance(value, (int, float)) for value in named.values()), named


def global_state() -> tuple[object, ...]:
    return (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_anomaly_enabled(),
    )


def test_there_are_reproductions() -> None:
    assert len(REPRODUCTIONS) >= 10


@pytest.mark.parametrize("path", REPRODUCTIONS, ids=lambda path: path.stem)
def test_reproduction(path: Path) -> None:
    assert path.with_suffix(".md").exists(), f"{path.name} has no case beside it"
    before = global_state()
    module = load(path)
    broken = module.broken()
    fixed = module.fixed()
    check_shape(broken)
    check_shape(fixed)
    assert broken["failed"] is True, broken
    assert fixed["failed"] is False, fixed
    assert global_state() == before, "a reproduction leaves torch as it found it"


@pytest.mark.parametrize("path", REPRODUCTIONS, ids=lambda path: path.stem)
def test_reproduction_repeats_itself(path: Path) -> None:
    def same(a: float, b: float) -> bool:
        return a == b or (math.isnan(a) and math.isnan(b))

    module = load(path)
    torch.manual_seed(1)
    first = module.broken()
    torch.manual_seed(2)
    second = module.broken()
    assert first.keys() == second.keys()
    assert all(same(first[name], second[name]) for name in first), (first, second)


@functools.cache
def measured_by(case: str) -> dict[str, float]:
    return dict(load(CASES / f"{case}.py").broken())


# Numbers that the page's Mechanism quotes and the reproduction measures: (case, key of broken(),
# as the page writes it).
QUOTED = [
    ("t5-ffn-wo-fp16-overflow", "wo_absmax_fp32", "87,412"),
    ("t5-ffn-wo-fp16-overflow", "wo_inf", "14"),
    ("t5-ffn-wo-fp16-overflow", "norm_nan", "14"),
    ("t5-ffn-wo-fp16-overflow", "fp16_max", "65504"),
    ("fully-masked-row-softmax-nan", "output_nan", "4"),
    ("fully-masked-row-softmax-nan", "gradient_nan", "16"),
    ("clip-before-unscale", "norm_seen_by_clip", "65536"),
    ("clip-before-unscale", "update_norm", "1.53e-5"),
    ("gradscaler-state-missing-in-checkpoint", "skipped_after_resume", "8"),
    ("gradscaler-state-missing-in-checkpoint", "settled_scale", "256"),
    ("unscale-called-twice", "raised_at", "2"),
    ("bf16-weights-update-below-half-ulp", "moved", "0"),
    ("bf16-weights-update-below-half-ulp", "weights", "768"),
    ("bf16-weights-update-below-half-ulp", "half_ulp_below_one", "1.95e-3"),
    ("ema-in-half-never-moves", "average", "1.0"),
    ("ema-in-half-never-moves", "steps", "5000"),
    ("scaler-update-per-optimizer-or-microbatch", "gradient_used", "0.5"),
    ("scaler-update-per-optimizer-or-microbatch", "unscaled_with", "2048"),
    ("sd21-attention-qk-overflow", "scores_inf", "16"),
    ("sd21-attention-qk-overflow", "qk_absmax", "3.1e5"),
    ("loss-scale-shrinks-to-1e-6-transformer", "final_scale", "5.96e-8"),
    ("loss-scale-shrinks-to-1e-6-transformer", "steps", "40"),
    ("learning-rate-too-high-diverges", "diverged_at", "32"),
    ("learning-rate-too-high-diverges", "stable_below", "0.02"),
    ("non-finite-input-data", "nan_after_standardising", "32"),
    ("non-finite-input-data", "nan_after_first_layer", "128"),
    ("adam-eps-underflow-fp16", "weight_nonfinite", "2"),
    ("hand-written-rmsnorm-squares-overflow", "limit", "255.9"),
    ("hand-written-rmsnorm-squares-overflow", "zeros_in_second_token", "4"),
    ("half-sum-of-many-values-overflows", "elements", "65536"),
    ("half-sum-of-many-values-overflows", "counter_2048_plus_1", "2048"),
    ("whole-loop-inside-autocast", "output_after", "-0.131"),
    ("whole-loop-inside-autocast", "output_with_new_weights", "-8.13"),
    ("half-params-attempting-to-unscale", "parameter_bytes", "2"),
    ("grad-norm-computed-in-fp16-overflows", "true_norm", "300"),
    ("log-of-softmax-underflows", "exact_probability", "2.1e-9"),
    ("autocast-disabled-on-half-tensors", "h", "300"),
    ("optimizer-steps-on-scaled-gradients", "moved", "6553.6"),
    ("scaler-step-without-update", "raised_at", "2"),
    ("scaler-unscales-with-another-scale", "applied", "0.0156"),
    ("bf16-gradient-accumulation", "accumulated", "0.973"),
    ("bf16-gradient-accumulation", "after_256", "0.4999"),
    ("batchnorm-running-stats-poisoned-by-skipped-step", "nan_of_32_eval_outputs", "32"),
    ("batchnorm-running-stats-poisoned-by-skipped-step", "finite_losses", "9"),
    ("contrastive-logit-scale-unbounded", "broke_at", "64"),
    ("contrastive-logit-scale-unbounded", "loss_before", "0.169"),
    ("nerf-density-exp-overflow", "exp_of_11", "59,872"),
    ("nerf-density-exp-overflow", "nonfinite_gradients", "7"),
    ("loss-scale-declines-on-unnormalised-data", "skipped", "19"),
    ("loss-scale-declines-on-unnormalised-data", "last_loss", "1,284,088"),
    ("recurrent-gradient-explodes", "gradient_at_100", "2.0e3"),
    ("recurrent-gradient-explodes", "gradient_at_200", "5.3e4"),
    ("dying-relu-network", "parameters_without_gradient", "5"),
    ("dying-relu-network", "last_loss", "172"),
    ("gan-discriminator-overpowers", "g_loss_non_saturating", "9.66"),
    ("gan-discriminator-overpowers", "generator_gradient_norm", "7.0e-4"),
    ("lr-spike-in-schedule", "lr_at_spike", "1.25"),
    ("lr-spike-in-schedule", "loss_before", "0.61"),
    ("outlier-batch-spikes-loss", "loss_of_bad_batch", "9.85"),
    ("outlier-batch-spikes-loss", "loss_of_next_step", "5.05"),
    ("resume-without-optimizer-state", "first_update_after", "0.01"),
    ("resume-without-optimizer-state", "greatest_loss_after", "0.088"),
    ("vanishing-gradient-deep-sigmoid", "first_gradient", "2.2e-11"),
    ("vanishing-gradient-deep-sigmoid", "ratio_per_layer", "6.6"),
    ("deepspeed-loss-scale-at-minimum", "ended_at", "17"),
    ("deepspeed-loss-scale-at-minimum", "changed_weights", "0"),
    ("apex-loss-scale-underflows-to-zero", "steps", "1092"),
    ("apex-loss-scale-underflows-to-zero", "scale_after_100_steps", "5.2e-26"),
    ("opt175b-loss-scale-floor", "first_fall", "71"),
    ("opt175b-loss-scale-floor", "floor_at", "755"),
    ("embedding-spikes-need-embed-norm", "gradient_ratio", "6332"),
    ("embedding-spikes-need-embed-norm", "output_absmax_with_rare_token", "20.8"),
    ("peft-fp16-adapter-loss-zero", "nan_in_lora_a", "128"),
    ("fp16-weights-train-nothing", "unchanged_percent", "100"),
    ("sdxl-vae-fp16-black-images", "absmax_before_norm", "309,946"),
    ("sdxl-vae-fp16-black-images", "black_percent", "100"),
    ("unscale-before-first-scale-after-resume", "raised_at", "1"),
    ("gradient-penalty-under-amp", "penalty", "1.0"),
    ("gradient-penalty-under-amp", "zeros_percent", "100"),
    ("checkpoint-recompute-loses-autocast", "gradient_error_percent", "2.5"),
    ("auxiliary-loss-not-scaled", "weight", "1.99997"),
    ("auxiliary-loss-not-scaled", "share_of_penalty", "3.0e-5"),
    ("dice-loss-sum-overflows", "pixels", "262,144"),
    ("dice-loss-sum-overflows", "loss_of_crop", "0.142"),
    ("box-area-overflows-half", "exact_iou_of_large", "0.68"),
    ("box-area-overflows-half", "area_of_200", "40,000"),
    ("bf16-optimizer-moments", "second_moment_at_end", "0.0981"),
    ("bf16-optimizer-moments", "update_over_lr", "0.032"),
    ("running-sum-in-bf16-stalls", "stood_still_at", "375"),
    ("running-sum-in-bf16-stalls", "average_after_1000", "1.024"),
    ("fp16-allreduce-sum-overflow", "elements", "1000"),
    ("fp16-allreduce-sum-overflow", "largest_of_one_worker", "440"),
    ("layernorm-eps-1e-12-in-half", "nan_rows_after_norm", "2"),
    ("layernorm-eps-1e-12-in-half", "nan_rows_after_attention", "6"),
    ("multi-task-loss-magnitude-gap", "loss_scale", "32"),
    ("multi-task-loss-magnitude-gap", "lost_percent", "64"),
    ("ctc-loss-half", "rounding_over_50_frames", "0.0036"),
    ("linear-attention-normaliser-fp16", "normaliser_of_128", "38,944"),
    ("linear-attention-normaliser-fp16", "wrong_of_512_with_4096", "512"),
]


@pytest.mark.parametrize(("case", "key", "written"), QUOTED, ids=lambda value: str(value))
def test_page_quotes_what_is_measured(case: str, key: str, written: str) -> None:
    page = (CASES / f"{case}.md").read_text(encoding="utf-8")
    mechanism = page.split("## Mechanism", 1)[1].split("## How to confirm", 1)[0]
    assert re.search(rf"(?<![\d.]){re.escape(written)}(?![\d]|\.\d)", mechanism), written
    measured = measured_by(case)[key]
    quoted = float(written.replace(",", ""))
    digits = len(re.sub(r"e.*|[^0-9]", "", written).lstrip("0")) or 1
    assert measured == pytest.approx(quoted, rel=10.0 ** (1 - digits) / 2 if quoted else 0), key
