"""Variant 1 of all planted trainings, recorded and diagnosed here and now."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from collections.abc import Iterator

import programs
import pytest
import torch
from evaluate import MPNANNY, Judged, evaluate, table
from planted import PROGRAMS
from record import record

assert programs


@pytest.fixture(scope="module")
def chosen(pytestconfig: pytest.Config) -> list[str]:
    """Every second training; with --slow all."""
    return list(PROGRAMS)[:: 1 if pytestconfig.getoption("--slow") else 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, chosen: list[str]) -> pathlib.Path:
    """The recordings, a database each."""
    torch.set_num_threads(1)
    folder: pathlib.Path = tmp_path_factory.mktemp("planted")
    for name in chosen:
        record(name, 1, folder)
    return folder


@pytest.fixture(scope="module")
def results(folder: pathlib.Path) -> list[Judged]:
    return evaluate(folder)


def test_there_is_a_result_for_every_training(results, chosen):
    share = len(chosen) / len(PROGRAMS)
    assert len(results) == len(chosen)
    assert sum(not each.healthy for each in results) >= 22 * share
    assert sum(each.healthy for each in results) >= 4 * share


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


def sentences(english: dict, chinese: dict) -> Iterator[tuple[str, str]]:
    """What the page shows of a diagnosis, in both languages; what a case says is its author's."""
    yield english["headline"], chinese["headline"]
    yield english["next_measurement"], chinese["next_measurement"]
    if english["first_bad"]:
        yield english["first_bad"]["what"], chinese["first_bad"]["what"]
    for one, other in zip(english["hypotheses"], chinese["hypotheses"], strict=True):
        if one["cause"] is None:
            yield one["title"], other["title"]
            yield one["fix"], other["fix"]
        for part in ("evidence", "against"):
            for pair in zip(one[part], other[part], strict=True):
                if not pair[0].startswith("A documented case: "):
                    yield pair


def test_chinese_readers_get_the_same_figures(folder):
    apart, english = [], []
    for database in sorted(folder.glob("*.db")):
        made = subprocess.run(
            [MPNANNY, "report", database, "-o", "-"], capture_output=True, check=True
        )
        diagnosis = json.loads(made.stdout)["runs"][0]["diagnosis"]
        for told in sentences(diagnosis, diagnosis["zh"]):
            figures = [set(re.findall(r"\d+(?:\.\d+)?", text)) for text in told]
            if figures[0] != figures[1]:
                apart.append(told)
            if not re.search("[\u4e00-\u9fff]", told[1]) and told[0] != "NaN":
                english.append(told[1])
        causes = diagnosis["zh"]["hypotheses"]
        assert all(re.search("[\u4e00-\u9fff]", each["title"]) for each in causes)
        assert all(re.search("[\u4e00-\u9fff]", each["fix"]) for each in causes)
    assert not apart
    assert not english
