"""`mpnanny mismatch` of a log: how large the mismatch is that it prints, and how it goes."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

Answer = dict[str, Any]
Asked = Callable[..., Answer]


def trl(values: list[float]) -> str:
    lines = []
    for step, value in enumerate(values):
        record = {"loss": 0.01, "grad_norm": 0.2, "learning_rate": 1e-6, "step": step}
        lines.append(str({**record, "sampling/sampling_logp_difference/mean": value}))
    return "\n".join(lines) + "\n"


def verl(values: list[float]) -> str:
    return "".join(
        f"step:{step} - actor/pg_loss:0.01 - actor/grad_norm:0.2 - rollout_corr/k3_kl:{value}\n"
        for step, value in enumerate(values, 1)
    )


def json_lines(values: list[float]) -> str:
    return "".join(
        json.dumps({"step": step, "optim/loss": 0.1, "optim/kl_sample_train_v1": value}) + "\n"
        for step, value in enumerate(values)
    )


def named(name: str, values: list[float]) -> str:
    return "".join(
        json.dumps({"step": step, "train/loss": 0.1, name: value}) + "\n"
        for step, value in enumerate(values)
    )


@pytest.mark.parametrize(
    ("name", "text", "verdict", "shape"),
    [
        ("a.log", trl([0.011] * 12), "agree", "rare_tokens"),
        ("a.log", trl([0.15] * 12), "degraded", "constant_offset"),
        ("a.log", trl([0.01 + 0.02 * step for step in range(12)]), "degraded", "stale_weights"),
        ("a.log", verl([0.0015] * 12), "agree", "rare_tokens"),
        ("a.log", verl([0.2] * 12), "broken", "constant_offset"),
        ("a.log", verl([0.0015] * 5 + [math.nan]), "broken", "not_finite"),
        ("a.jsonl", json_lines([0.001] * 12), "agree", "rare_tokens"),
        ("a.jsonl", named("train/gen_kl_error", [0.0016] * 9), "agree", "rare_tokens"),
        ("a.jsonl", named("train/gen_kl_error", [0.3] * 9), "broken", "constant_offset"),
        ("a.jsonl", named("token_mult_prob_error", [1.011] * 9), "agree", "rare_tokens"),
        ("a.jsonl", named("token_mult_prob_error", [1.3] * 9), "degraded", "constant_offset"),
        (
            "a.jsonl",
            named("policy/rollout_train_logprobs_abs_diff_mean", [0.0148] * 9),
            "agree",
            "rare_tokens",
        ),
    ],
)
def test_size_and_course(
    name: str, text: str, verdict: str, shape: str, tmp_path: pathlib.Path, mismatch: Asked
) -> None:
    (tmp_path / name).write_text(text)
    answer = mismatch(tmp_path / name)
    assert (answer["verdict"], answer["shape"]) == (verdict, shape), answer
    assert "no tokens" in answer["notes"][0]


def test_the_logs_own_number_and_name_are_quoted(tmp_path: pathlib.Path, mismatch: Asked) -> None:
    (tmp_path / "a.log").write_text(verl([0.0015, 0.0025, 0.002]))
    measured = mismatch(tmp_path / "a.log")["measured"]
    assert "rollout_corr/k3_kl is 0.0015 at step 1, at most 0.0025 (step 2)" in measured


def test_a_log_without_such_a_number(tmp_path: pathlib.Path, mismatch: Asked) -> None:
    (tmp_path / "a.log").write_text("step 1 loss 2.3 kl 0.1\nstep 2 loss 2.2 kl 0.1\n")
    answer = mismatch(tmp_path / "a.log", code=0)
    assert answer["verdict"] == "not_established"
    assert "log_mismatch" in answer["fix"]
