"""Trainings that are healthy: at trace_interval=1, every layer watched at every step, they must be
as good as silent.
"""

from __future__ import annotations

import pytest
from trainings import ALWAYS, MARKED, STEPS, TRAININGS, plain, watched

# A first step that the scaler skips lets the learning rate's schedule come first.
pytestmark = pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")


@pytest.mark.parametrize("name", MARKED)
def test_a_healthy_training_raises_no_error(name):
    trained = watched(name)
    assert [alert for alert in trained.alerts if alert["severity"] == "ERROR"] == []
    # It was watched: every step sampled, inputs or not, and closed as planned.
    assert (trained.sampled, trained.run["end_reason"]) == (STEPS, "closed")
    assert {1, 2, 3, 4} <= trained.kinds
    assert trained.run["precision"] == name.split()[1]


def test_healthy_trainings_raise_at_most_one_warning_in_a_thousand_steps(pytestconfig):
    names = list(TRAININGS) if pytestconfig.getoption("--slow") else ALWAYS
    warnings = [
        (name, alert["type"], alert["layer"], alert["step"], alert["message"])
        for name in names
        for alert in watched(name).alerts
        if alert["severity"] == "WARNING"
    ]
    assert len(warnings) * 1000 <= len(names) * STEPS, warnings


@pytest.mark.parametrize(
    "name", [each for each in MARKED if not str(each.values[0]).startswith("gan")]
)
def test_the_healthy_trainings_do_learn(name):
    losses = plain(name).losses
    assert sum(losses[-30:]) < 0.97 * sum(losses[:30])


def test_the_start_up_of_a_scaler_is_among_them():
    """Overflows that GradScaler's search for a scale costs, at the start and after growing."""
    skipped = {
        name: plain(f"{name} fp16").skipped for name in ("mlp", "autoencoder", "contrastive")
    }
    assert skipped["mlp"] >= 10
    assert min(skipped.values()) > 0, skipped
