"""What auto_diff names first, and what it leaves alone."""

from __future__ import annotations

import pathlib

import healthy
import planted
import pytest
from mpnanny.diff import diff_request

HERE = pathlib.Path(__file__).parent


@pytest.mark.parametrize("name", planted.CASES)
def test_the_planted_operator_is_named_first(name):
    inputs, dtype, policy, backward = planted.CASES[name]
    answer = diff_request(
        {
            "function": f"{HERE / 'planted.py'}:{name}",
            "input": inputs,
            "dtype": dtype,
            "policy": policy,
            "backward": backward,
        }
    )
    assert answer["verdict"] in ("broken", "degraded")
    file, _, line = answer["first_bad"]["source"].rpartition(":")
    assert file == "planted.py"
    assert int(line) in planted.lines_of(name)


# Autocast casts nothing in them: with FP32 inputs no operator meets 16 bits, which clears nothing.
IN_FP32 = {"giou", "log_sum_exp", "distances"}


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("name", healthy.CASES)
def test_what_is_right_is_clean(name, dtype):
    inputs, policy, backward = healthy.CASES[name]
    answer = diff_request(
        {
            "function": f"{HERE / 'healthy.py'}:{name}",
            "input": inputs,
            "dtype": dtype,
            "policy": policy,
            "backward": backward,
        }
    )
    assert "first_bad" not in answer
    if name in IN_FP32:
        assert answer["verdict"] == "not_established" and answer["operators_in_low"] == 0
    else:
        assert answer["verdict"] == "clean"
