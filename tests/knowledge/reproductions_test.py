"""Executes every reproduction of knowledge/cases in one interpreter: broken() fails, fixed() does
not.
"""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path

import pytest
import torch
from caught import load

CASES = Path(__file__).resolve().parents[2] / "knowledge" / "cases"
REPRODUCTIONS = sorted(CASES.glob("*.py"))


def check_shape(numbers: object) -> None:
    assert isinstance(numbers, dict)
    assert isinstance(numbers.get("failed"), bool)
    named = {name: value for name, value in numbers.items() if name != "failed"}
    assert named, "a reproduction returns the numbers that its page quotes"
    assert all(isinstance(value, (int, float)) for value in named.values()), named


def global_state() -> tuple[object, ...]:
    return (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_anomaly_enabled(),
    )


def test_there_are_reproductions() -> None:
    assert len(REPRODUCTIONS) >= 10


@pytest.mark.parametrize("path", REPRODUCTIONS, ids=lambda path: path.stem)
def test_reproduction(path: Path) -> None:
    assert path.with_suffix(".md").exists(), f"{path.name} has no case beside it"
    before = global_state()
    module = load(path)
    broken = module.broken()
    fixed = module.fixed()
    check_shape(broken)
    check_shape(fixed)
    assert broken["failed"] is True, broken
    assert fixed["failed"] is False, fixed
    assert global_state() == before, "a reproduction leaves torch as it found it"


@pytest.mark.parametrize("path", REPRODUCTIONS, ids=lambda path: path.stem)
def test_reproduction_repeats_itself(path: Path) -> None:
    def same(a: float, b: float) -> bool:
        return a == b or (math.isnan(a) and math.isnan(b))

    module = load(path)
    torch.manual_seed(1)
    first = module.broken()
    torch.manual_seed(2)
    second = module.broken()
    assert first.keys() == second.keys()
    assert all(same(first[name], second[name]) for name in first), (first, second)


@functools.cache
def measured_by(case: str) -> dict[str, float]:
    return dict(load(CASES / f"{case}.py").broken())


def quoted() -> list[list[str]]:
    """quoted.tsv: numbers that a page's Mechanism quotes and its reproduction measures."""
    text = (Path(__file__).parent / "quoted.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(("case", "key", "written"), quoted(), ids=lambda value: str(value))
def test_page_quotes_what_is_measured(case: str, key: str, written: str) -> None:
    page = (CASES / f"{case}.md").read_text(encoding="utf-8")
    mechanism = page.split("## Mechanism", 1)[1].split("## How to confirm", 1)[0]
    assert re.search(rf"(?<![\d.]){re.escape(written)}(?![\d]|\.\d)", mechanism), written
    measured = measured_by(case)[key]
    quoted = float(written.replace(",", ""))
    digits = len(re.sub(r"e.*|[^0-9]", "", written).lstrip("0")) or 1
    assert measured == pytest.approx(quoted, rel=10.0 ** (1 - digits) / 2 if quoted else 0), key
