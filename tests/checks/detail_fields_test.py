"""Every key that the monitor writes into a detail is a field of engines/runs/detail_fields.cc, so
that a redacted pack knows whether to keep or to hide its text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "engines/runs/detail_fields.cc"
PACKAGE = ROOT / "monitor/python/mpnanny"
# Of what runs code of the user's beside a training, with answers of its own.
OTHER = {"diff", "precision", "programs"}
# Stands in the run's row, and is redacted by a list of its own.
ENVIRONMENT = {"process/environment.py", "_launch/untrained.py"}
INTERNAL = {"came_in"}  # stands in the file as "origin" (shadow/finding_rows.py)
DETAILS = {"detail", "facts", "figures"}
CALLS = {"fault", "_say", "_say_call", "say"}


def fields() -> set[str]:
    return set(re.findall(r'^    \{"(\w+)"', TABLE.read_text(), re.M))


def name_of(node: ast.expr) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def keys_of(node: ast.expr | None) -> Iterator[str]:
    """Of every dict with keys that are written out, within the expression."""
    for each in ast.walk(node) if node is not None else ():
        if isinstance(each, ast.Dict):
            for key in each.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value


def keys_in_python(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Subscript) and name_of(node.value) in DETAILS:
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                yield node.slice.value
        elif isinstance(node, ast.Assign) and name_of(node.targets[0]) in DETAILS:
            yield from keys_of(node.value)
        elif isinstance(node, ast.AnnAssign) and name_of(node.target) in DETAILS:
            yield from keys_of(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name.strip("_") in DETAILS:
            for each in ast.walk(node):
                if isinstance(each, ast.Return):
                    yield from keys_of(each.value)
        elif isinstance(node, ast.Call) and name_of(node.func) == "dumps":
            yield from keys_of(node.args[0])
        elif isinstance(node, ast.Call) and name_of(node.func) in CALLS:
            yield from (each.arg for each in node.keywords if each.arg)
        elif isinstance(node, ast.keyword) and node.arg == "detail":
            yield from keys_of(node.value)


def keys_in_cc(text: str) -> set[str]:
    """Of JsonObject, and of JSON that is written out."""
    return set(re.findall(r'\b(?:Text|Int|Number|Json)\("(\w+)"', text)) | set(
        re.findall(r'[{,]\\?"(\w+)\\?":', text)
    )


def test_every_key_of_the_monitor_is_a_field():
    known = fields()
    assert len(known) > 100
    missing = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] in OTHER or place.as_posix() in ENVIRONMENT:
            continue
        for key in set(keys_in_python(path.read_text())) - known - INTERNAL:
            missing.setdefault(key, place.as_posix())
    for path in sorted((ROOT / "monitor/core").glob("*.cc")):
        for key in keys_in_cc(path.read_text()) - known:
            missing.setdefault(key, path.name)
    assert not missing


def test_what_the_guard_did_is_made_of_fields():
    tree = ast.parse((PACKAGE / "guard/precision_guard.py").read_text())
    change = next(each for each in tree.body if getattr(each, "name", "") == "Change")
    keys = {each.target.id for each in change.body if isinstance(each, ast.AnnAssign)}
    assert len(keys) > 3
    assert keys <= fields()


def test_keys_are_seen_however_they_are_written():
    text = """
detail = {"one": 1, "more": [{"two": 2} for each in all]}
detail["three"] = 3
finding.detail["four"] = 4
fault(KIND, site, five=5)
json.dumps({"six": 6})
Finding(detail={"seven": 7})
other = {"eight": 8}
"""
    found = set(keys_in_python(text))
    assert found == {"one", "more", "two", "three", "four", "five", "six", "seven"}
    assert keys_in_cc('detail.Text("where", "x"); R"({"eps":%g,"of":1})"') == {"where", "eps", "of"}
