"""Labelled programs as exported models: what the worker names first, and what it leaves alone.

    python tests/worker/planted_test.py --table [--only a03] [--formats script trace pt2 strict]

prints what came out of each, and the shares.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
import tempfile
from collections import defaultdict
from typing import Any

if __name__ == "__main__":
    import conftest  # noqa: F401  where the models are found

import pytest
import torch
from asking import diff
from planted_cases import (
    CASES,
    FORMATS,
    MISSED,
    NOT_STRICT,
    SLOW,
    Case,
    has_helper,
    right_lines,
    words_of,
    write,
)


def chosen(healthy: bool) -> list[Any]:
    """Cases and formats. A label in a helper is judged in a strict export as well."""
    found = []
    for case in CASES.values():
        if case.healthy is not healthy:
            continue
        strict = not healthy and has_helper(case) and case.program not in NOT_STRICT
        for form in (*FORMATS, *(("strict",) if strict else ())):
            marks = [pytest.mark.skip(reason=case.skip)] if case.skip else []
            if case.baked(form):
                marks.append(pytest.mark.skip(reason="the file does not hold what the label means"))
            if (case.program, form) in SLOW:
                marks.append(pytest.mark.slow)
            found.append(pytest.param(case, form, id=f"{case.name}-{form}", marks=marks))
    return found


def judged(case: Case, form: str, folder: pathlib.Path) -> dict[str, Any]:
    """What came out, and whether it is right."""
    file = write(case, form, folder)
    code, answer, err = diff(file, words_of(case), case.dtype, case.policy)
    if not answer:
        return {"right": False, "verdict": "error", "named": err.strip(), "code": code}
    first = answer.get("first_bad") or {}
    named, _, line = str(first.get("source", "")).rpartition(":")
    if case.healthy:
        # Where autocast leaves all operators in FP32, nothing ran that could be right or wrong.
        right = answer["verdict"] in ("clean", "not_established") and not first
    else:
        right = (
            answer["verdict"] in ("broken", "degraded")
            and pathlib.Path(named).name == case.file.name
            and int(line) in right_lines(case, form)
        )
    return {
        "right": right,
        "verdict": answer["verdict"],
        "named": f"{first.get('kind', '')} {first.get('op', '')} {first.get('source', '')}".strip(),
        "code": code,
        "limits": answer.get("limits", []),
    }


@pytest.mark.parametrize(("case", "form"), chosen(healthy=False))
def test_the_planted_operator_is_named_first(case, form, files, worker, request):
    if reason := MISSED.get((case.program, form)):
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    row = judged(case, form, files)
    assert row["right"], f"{row['verdict']}: {row['named']}, not {sorted(right_lines(case, form))}"
    assert row["code"] == 1 and "forward_only" in row["limits"]


@pytest.mark.parametrize(("case", "form"), chosen(healthy=True))
def test_what_is_right_is_clean(case, form, files, worker):
    row = judged(case, form, files)
    assert row["right"], f"{row['verdict']}: {row['named']}"
    assert row["code"] == 0 and "forward_only" in row["limits"]


# --- of the files themselves: without the lines in them nobody could name one ---


def told_by_script(graph: Any, file: pathlib.Path) -> set[int]:
    """Lines of `file` that the operators of a TorchScript graph tell, in its blocks too: scripted
    'File "x.py", line 7', traced 'x.py(7)'.
    """
    found = set()
    for node in graph.nodes():
        words = node.sourceRange().partition("Serialized")[0]
        pattern = rf'{re.escape(str(file))}(?:", line |\()(\d+)'
        found |= {int(each) for each in re.findall(pattern, words)}
        for block in node.blocks():
            found |= told_by_script(block, file)
    return found


def told_by_program(graph_module: torch.fx.GraphModule, file: pathlib.Path) -> set[int]:
    found = set()
    for module in graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            words = node.meta.get("stack_trace") or ""
            found |= {int(n) for n in re.findall(rf'{re.escape(str(file))}", line (\d+)', words)}
    return found


@pytest.mark.parametrize(("case", "form"), chosen(healthy=False))
def test_the_file_tells_a_labelled_line(case, form, files):
    path = write(case, form, files)
    if path.suffix == ".pt":
        told = told_by_script(torch.jit.load(str(path)).inlined_graph, case.file)
    else:
        told = told_by_program(torch.export.load(str(path)).graph_module, case.file)
    assert not told.isdisjoint(right_lines(case, form)), sorted(told)


def table(only: str, formats: list[str], folder: pathlib.Path) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    # By set, whether healthy, format: right and all, and the same without what the format lost.
    counts: dict[tuple[str, bool, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for case in CASES.values():
        if case.skip or only not in case.name:
            continue
        for form in formats:
            try:
                row = judged(case, form, folder)
            except Exception as error:
                row = {"right": False, "verdict": "not exported", "named": str(error)[:200]}
            rows[f"{case.name} {form}"] = row
            wanted = "healthy" if case.healthy else f"lines {sorted(right_lines(case, form))}"
            print(
                f"{case.name:36} {form:6} {'ok  ' if row['right'] else 'MISS'} "
                f"{row['verdict']:10} {(row['named'].splitlines() or [''])[0]}  (label: {wanted}"
                f"{', of a dtype that is baked in' if case.baked(form) else ''})",
                flush=True,
            )
            if row["verdict"] != "not exported":
                count = counts[case.program.partition(":")[0], case.healthy, form]
                part = [int(row["right"]), 1]
                part += [0, 0] if case.baked(form) else part
                count[:] = [one + other for one, other in zip(count, part, strict=True)]
    print(f"\n{'set':12} {'what':8} {'format':7} {'right':>10}  without baked dtypes")
    for (origin, healthy, form), (right, of, kept, of_kept) in sorted(counts.items()):
        what = "healthy" if healthy else "planted"
        print(f"{origin:12} {what:8} {form:7} {right:>3} of {of:>3}  {kept:>3} of {of_kept:>3}")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="the default, and all there is")
    parser.add_argument("--only", default="", help="part of the names of cases")
    parser.add_argument("--formats", nargs="+", default=list(FORMATS))
    parser.add_argument("--files", type=pathlib.Path, help="folder that keeps the exported files")
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = given.files or pathlib.Path(made)
        folder.mkdir(exist_ok=True)
        rows = table(given.only, given.formats, folder)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
