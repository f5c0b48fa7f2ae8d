"""Labelled training programs under the monitor, as users run them: the mistakes are found at their
lines, and healthy programs get nothing above a note. `evaluate.py` says the same of whole folders.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence

import pytest
from evaluate import (
    MPNANNY,
    Found,
    Judged,
    evaluate,
    judge,
    line,
    lines_of,
    marked_lines,
    programs,
    totals,
)
from forked_python import forked_python

HERE = pathlib.Path(__file__).parent
FOLDERS = ("broken_a", "broken_b", "failing", "healthy", "blind", "blind_2")
# One of each kind of mistake; what every run of the tests can afford.
SOME = (
    "barometer_forecast",
    "gridworld_policy",
    "long_tail_bf16",
    "few_shot_autocast",
    "embedding_pairs_bf16",
    "fp16_loss_sum",
    "log_of_counts",
    "zero_range_norm",
    "kahan_bf16_adamw",
    "scaler_search",
    "masks_causal_padding",
    "converged_classifier",
)
# Of the programs of a folder, in hundredths: what whole folders must reach.
AS_MANY = {"operator and line": 75, "precision": 85}


def trained(folders: Sequence[str], some: Sequence[str] | None) -> list[Judged]:
    chosen = {
        path: label
        for folder in folders
        for path, label in programs(HERE / folder).items()
        if some is None or path.stem in some
    }
    return list(evaluate(chosen, [str(MPNANNY), "run", "--quiet"], forked_python()))


def expect_healthy(results: list[Judged]) -> None:
    wrong = [line(each) for each in results if each.false or each.trouble]
    assert not wrong, "\n".join(wrong)


def test_mistakes_are_found_and_healthy_programs_are_left_alone():
    results = trained(FOLDERS, SOME)
    assert {each.name for each in results} == set(SOME)
    wrong = [
        line(each)
        for each in results
        if each.trouble or each.false or each.hit is False or each.precision is False
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_most_mistakes_are_found_and_no_healthy_program_gets_more_than_a_note(folder):
    results = trained([folder], None)
    report = "\n".join([*map(line, results), totals(results)])
    for what, answers in (
        ("operator and line", [each.hit for each in results]),
        ("precision", [each.precision for each in results]),
    ):
        judged = [answer for answer in answers if answer is not None]
        assert 100 * sum(judged) >= AS_MANY[what] * len(judged), report
    expect_healthy([each for each in results if each.healthy])


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_program_has_a_label_and_every_mistake_a_line(folder):
    labelled = programs(HERE / folder)
    assert {path.name for path in labelled} == {path.name for path in (HERE / folder).glob("*.py")}
    for path, label in labelled.items():
        assert bool(marked_lines(path)) == (label["kind"] == "broken"), path.name
        assert label["precision"] in (True, False, None), path.name
        json.dumps(label)


def found(severity: str, precision: str, lines: list[int]) -> Found:
    return Found(severity, "range", "aten.exp", "p.py:1", "loss", 0, precision, lines, 0, 0, [])


def test_scores_are_of_the_first_two_findings():
    broken = {"kind": "broken", "precision": True}
    hits = [found("ERROR", "excluded", [3]), found("WARNING", "proven", [7])]
    assert judge(broken, [7, 9], hits) == {"hit": True, "precision": False, "false": None}
    late = [hits[0], hits[0], hits[1]]
    assert judge(broken, [7, 9], late)["hit"] is False
    assert judge(broken, [3], hits[1:]) == {"hit": False, "precision": True, "false": None}
    # What is not tested is no answer; nothing found is one where the precision is not to blame.
    other = {"kind": "broken", "precision": False}
    assert judge(broken, [3], [found("INFO", "not_tested", [3])])["precision"] is False
    assert judge(other, [3], [found("INFO", "not_tested", [3])])["precision"] is False
    assert judge(broken, [3], []) == {"hit": False, "precision": False, "false": None}
    assert judge(other, [3], []) == {"hit": False, "precision": True, "false": None}
    healthy = {"kind": "healthy", "precision": None}
    assert judge(healthy, [], [found("INFO", "proven", [])])["false"] is False
    assert judge(healthy, [], hits)["false"] is True


def test_lines_are_those_of_the_program_itself(tmp_path):
    program = tmp_path / "p.py"
    program.write_text("x = 1\ny = x / 0  # @fault\n")
    assert marked_lines(program) == [2]
    sources = ["elsewhere/p.py:2", "other.py:1", None, "p.py:x", "p.py:9", "p.py:2"]
    assert lines_of(program, sources) == [2, 9]
