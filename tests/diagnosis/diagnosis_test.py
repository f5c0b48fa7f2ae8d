"""Variant 1 of all planted trainings, recorded and diagnosed here and now."""

from __future__ import annotations

import pathlib

import programs
import pytest
import torch
from evaluate import Judged, evaluate, table
from planted import PROGRAMS
from record import record

assert programs


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Judged]:
    torch.set_num_threads(1)
    folder: pathlib.Path = tmp_path_factory.mktemp("planted")
    for name in PROGRAMS:
        record(name, 1, folder)
    return evaluate(folder)


def test_there_is_a_result_for_every_training(results):
    assert len(results) == len(PROGRAMS)
    assert sum(not each.healthy for each in results) >= 24
    assert sum(each.healthy for each in results) >= 6


def test_healthy_trainings_are_called_healthy(results):
    wrong = [each for each in results if each.healthy and not each.verdict]
    assert not wrong, table(wrong, markdown=False)


# What is wrong today (bench/evaluations/diagnosis/confidence.md): a gate on the figure, no lower.
@pytest.mark.parametrize(("what", "most"), [("cause", 1), ("step", 0), ("producer", 1)])
def test_no_more_are_wrong_than_today(results, what, most):
    wrong = [each for each in results if getattr(each, what) is False]
    assert len(wrong) <= most, table(wrong, markdown=False)


def test_what_is_broken_is_not_called_healthy(results):
    wrong = [each for each in results if not each.healthy and each.told.startswith("healthy")]
    assert not wrong, table(wrong, markdown=False)
