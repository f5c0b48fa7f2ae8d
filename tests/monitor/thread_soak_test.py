"""A short form of bench/threads/soak.py: no crash, and the bits of unwatched trainings. --slow: all
scenarios, longer.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import PACKAGE

SOAK = pathlib.Path(__file__).parents[2] / "bench" / "threads"
sys.path.insert(0, str(SOAK))

from scenarios import SCENARIOS  # noqa: E402


def soak(scenario: str, seconds: float, runs: int) -> str:
    done = subprocess.run(
        [sys.executable, SOAK / "soak.py", "--show", "--scenario", scenario]
        + ["--seconds", str(seconds), "--runs", str(runs)],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_short_soak():
    assert " 1 runs, 0 crashes, 1 with equal bits" in soak("two_models", 2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_long_soak(scenario):
    assert " 3 runs, 0 crashes, 3 with equal bits" in soak(scenario, 10, 3)
