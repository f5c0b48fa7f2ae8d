"""Executes every reproduction of knowledge/cases in one interpreter: broken() fails, fixed() does
not.
"""

from __future__ import annotations

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
]


@pytest.mark.parametrize(("case", "key", "written"), QUOTED, ids=lambda value: str(value))
def test_page_quotes_what_is_measured(case: str, key: str, written: str) -> None:
    page = (CASES / f"{case}.md").read_text(encoding="utf-8")
    mechanism = page.split("## Mechanism", 1)[1].split("## How to confirm", 1)[0]
    assert re.search(rf"(?<![\d.]){re.escape(written)}(?![\d]|\.\d)", mechanism), written
    measured = load(CASES / f"{case}.py").broken()[key]
    quoted = float(written.replace(",", ""))
    digits = len(re.sub(r"e.*|[^0-9]", "", written).lstrip("0")) or 1
    assert measured == pytest.approx(quoted, rel=10.0 ** (1 - digits) / 2 if quoted else 0), key
