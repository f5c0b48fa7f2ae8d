"""Every alert type has its page, and the page tells what the code does."""

from __future__ import annotations

import pathlib
import re

import pytest
from mpnanny import _core

PAGES = pathlib.Path(__file__).parents[2] / "monitor" / "alerts"
SECTIONS = ["Meaning", "Condition", "Defaults and their source", "False alarms", "What to do"]


def test_every_type_has_a_page_and_every_page_a_type():
    pages = {page.stem for page in PAGES.glob("*.md")} - {"README"}
    assert pages == {name for name, _, _ in _core.alert_types()}


@pytest.mark.parametrize(("name", "severity", "threshold"), _core.alert_types())
def test_the_page_tells_severity_and_threshold_of_the_code(name, severity, threshold):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    front = dict(re.findall(r"^(\w+): (.*)$", text.split("---")[1], re.M))
    assert front["id"] == name
    assert front["severity"] == severity
    assert front["default"].strip('"') == threshold
    assert re.findall(r"^## (.*)$", text, re.M) == SECTIONS
