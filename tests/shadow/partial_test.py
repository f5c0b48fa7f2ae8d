"""Averages and teachers whose buffers do not follow, and those that are right."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database
from finds import Finds, inputs
from mpnanny import MixedPrecisionNanny
from torch import nn


def network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8), nn.BatchNorm1d(8)
    )


@pytest.fixture
def run(db: str, database: Callable[[], Database]) -> Callable[..., list[dict[str, Any]]]:
    def train(
        follow: Callable[[nn.Module, nn.Module], None],
        use: Callable[[nn.Module, torch.Tensor], torch.Tensor] | None = None,
        steps: int = 20,
        whole: bool = False,
    ) -> list[dict[str, Any]]:
        student = network()
        teacher = copy.deepcopy(student).requires_grad_(False).eval()
        model = nn.ModuleList([student, teacher]) if whole else student
        optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
        with MixedPrecisionNanny(model, db=db, shadow="auto", quiet=True):
            for _ in range(steps):
                x = 3 * inputs() + 2
                wanted = teacher(x) if use is None else use(teacher, x)  # uses
                optimizer.zero_grad()
                (student(x) - wanted - 1).square().mean().backward()
                optimizer.step()
                with torch.no_grad():
                    follow(student, teacher)
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        found = [each for each in Finds(database()).all if each["kind"] == "partial_copy"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    torch.manual_seed(0)
    return train


def weights(student: nn.Module, teacher: nn.Module) -> None:
    for mine, theirs in zip(teacher.parameters(), student.parameters(), strict=True):
        mine.lerp_(theirs, 0.1)


def buffers(student: nn.Module, teacher: nn.Module) -> None:
    for mine, theirs in zip(teacher.buffers(), student.buffers(), strict=True):
        mine.copy_(theirs)


@pytest.mark.parametrize("whole", [False, True])
def test_an_average_whose_running_statistics_stay(run, whole):
    (found,) = run(weights, whole=whole)
    assert found["severity"] == "WARNING" and found["precision"] == "excluded"
    assert found["line"].endswith("# uses")
    assert "1.running_mean" in found["detail"]["parameters"] and found["detail"]["count"] == 4
    assert found["detail"]["steps"] >= 3 and found["detail"]["share"] > 0.2


# --- what is right ---


def test_an_average_that_takes_the_buffers_as_well(run):
    assert run(lambda a, b: (weights(a, b), buffers(a, b))) == []


def test_an_average_that_makes_its_own_statistics(run):
    assert run(weights, lambda teacher, x: teacher.train()(x)) == []


def test_a_teacher_that_is_held_as_it_is(run):
    assert run(lambda a, b: None) == []


def test_an_average_that_is_not_used_yet(run):
    assert run(weights, lambda teacher, x: torch.zeros(len(x), 8)) == []
