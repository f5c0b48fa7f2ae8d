"""Whole sets of models: planted sensitive modules are found, healthy models are left as they are.
The figures are those of docs/choose_precision.md; what falls below them has become worse.
"""

from __future__ import annotations

import evaluate


def test_planted_modules_are_found():
    rows = evaluate.score_planted()
    breaking = [each for each in rows if each["breaks"]]
    assert len(rows) == 28 and len(breaking) >= 26
    assert sum(each["right"] for each in breaking) >= 25


def test_faults_of_other_authors_are_found():
    rows = [each for each in evaluate.score_others() if each["breaks"]]
    assert len(rows) >= 9
    assert all(each["right"] for each in rows)


def test_healthy_models_need_no_islands():
    rows = evaluate.score_families()
    assert len(rows) == 60
    assert sum(each["right"] for each in rows) >= 60
