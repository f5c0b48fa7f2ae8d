"""What a page promises of the shadow and of auto_diff holds for its own program: broken() is found,
fixed() is clean.
"""

from __future__ import annotations

import pytest
from caught import CASES, diff_catches, promised, shadow_catches

PAGES = sorted(path.stem for path in CASES.glob("*.py"))
SHADOW = [case for case in PAGES if "shadow" in promised(case)]
DIFF = [case for case in PAGES if "diff" in promised(case)]

# Trainings of hundreds of steps, each operator of which is done again: a minute and more.
LONG = ("vanishing-gradient-deep-sigmoid", "xla-use-bf16-slower-convergence")
# What auto_diff tries at every place of a long loop.
LONG_DIFF = (
    "checkpoint-saved-in-half",
    "learning-rate-too-high-diverges",
    "mamba-pure-bf16-parameters",
    "metric-counter-overflow-looks-like-nan-training",
    "running-sum-in-bf16-stalls",
)


def test_enough_cases_are_caught() -> None:
    assert len(SHADOW) >= 40
    assert len(DIFF) >= 40


def leave_out(case: str, slow: bool, long: tuple[str, ...] = LONG) -> None:
    if case in long and not slow:
        pytest.skip("takes long: --slow")


@pytest.mark.parametrize("case", SHADOW)
def test_a_shadow_finds_what_the_page_says(case: str, slow: bool) -> None:
    leave_out(case, slow)
    assert shadow_catches(case)


@pytest.mark.parametrize("case", DIFF)
def test_auto_diff_finds_what_the_page_says(case: str, slow: bool) -> None:
    leave_out(case, slow, LONG + LONG_DIFF)
    assert diff_catches(case)
