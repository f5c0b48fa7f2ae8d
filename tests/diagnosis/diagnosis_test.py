"""Variant 1 of all planted trainings, recorded and diagnosed here and now."""

from __future__ import annotations

import pathlib

import programs
import pytest
import torch
from evaluate import Judged, evaluate, needed, table
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


@pytest.mark.parametrize(("what", "of_24"), [("cause", 22), ("step", 20), ("producer", 20)])
def test_as_many_are_right_as_were_promised(results, what, of_24):
    answers = [getattr(each, what) for each in results]
    right = sum(bool(answer) for answer in answers)
    assert right >= needed(answers, of_24), table(results, markdown=False)
