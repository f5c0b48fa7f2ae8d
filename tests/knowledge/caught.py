"""What catches each case's program: a shadow over broken() and fixed(), and auto_diff of both.

Run as a script it measures every case and prints the table of
bench/evaluations/knowledge/caught.md.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from mpnanny.diff import Problem, diff_request
from mpnanny.operators.modes import ModeStack
from mpnanny.shadow.changes import Changes
from mpnanny.shadow.memory import allowance
from mpnanny.shadow.step import ShadowStep

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "knowledge" / "cases"
POLICIES = ("cuda-autocast", "pure")
COLUMNS = ("reproduction", "shadow", "diff", "static", "monitor", "tensor", "log")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("case_" + path.stem.replace("-", "_"), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def promised(case: str) -> list[str]:
    """The words of the page's `detectable_by`."""
    text = (CASES / f"{case}.md").read_text(encoding="utf-8")
    found = re.search(r"^detectable_by: \[(.*)\]$", text, re.MULTILINE)
    assert found is not None, case
    return [word.strip() for word in found[1].split(",")]


def shadow_findings(case: str, function: str) -> list[str]:
    """Kinds of what a shadow step finds wrong in one call: errors and warnings."""
    module = load(CASES / f"{case}.py")
    trouble: list[Exception] = []
    step = ShadowStep(0, {}, Changes(lambda _: None), None, trouble.append, allowance())
    stack = ModeStack()
    assert stack.push(step.mode), stack.refusal()
    try:
        getattr(module, function)()
    finally:
        stack.remove(step.mode)
    return [each.kind for each in step.finish(()) if each.severity in ("ERROR", "WARNING")]


def diff_verdict(case: str, function: str, policy: str) -> str:
    """auto_diff's verdict on one function of the program, or why there is none. A cure in FP32
    leaves nothing that runs in 16 bits, which is "nothing found" and no more.
    """
    request: dict[str, Any] = {
        "function": f"{CASES / case}.py:{function}",
        "policy": policy,
        "dtype": "fp16",
        "backward": False,
        "root": str(CASES),
    }
    try:
        answer = diff_request(request)
    except Problem as problem:
        return f"problem: {problem.message}"
    verdict = str(answer["verdict"])
    if verdict == "not_established" and not answer["findings"]:
        return "nothing found"
    return verdict


def shadow_catches(case: str) -> bool:
    return bool(shadow_findings(case, "broken")) and not shadow_findings(case, "fixed")


def diff_catches(case: str) -> bool:
    return any(
        diff_verdict(case, "broken", policy) in ("broken", "degraded")
        and diff_verdict(case, "fixed", policy) in ("clean", "nothing found")
        for policy in POLICIES
    )


def main() -> None:
    rows = {}
    for page in sorted(CASES.glob("*.md")):
        words = promised(page.stem)
        has_program = page.with_suffix(".py").exists()
        row = {word: "named" if word in words else "" for word in COLUMNS}
        if has_program:
            row["reproduction"] = "runs"
            for word, catches in (("shadow", shadow_catches), ("diff", diff_catches)):
                try:
                    caught = catches(page.stem)
                except Exception as error:  # a program that cannot be followed is a result as well
                    print(f"{page.stem}: {word}: {error!r}", file=sys.stderr)
                    caught = False
                row[word] = "yes" if caught else "no"
        rows[page.stem] = row
        print(json.dumps({"case": page.stem, **row}), file=sys.stderr, flush=True)
    print("| case | " + " | ".join(COLUMNS) + " |")
    print("|---|" + "---|" * len(COLUMNS))
    for case, row in rows.items():
        print(f"| {case} | " + " | ".join(row[word] for word in COLUMNS) + " |")
    for word in ("shadow", "diff"):
        caught = sum(row[word] == "yes" for row in rows.values())
        print(f"\n{word}: {caught} of {sum(row[word] in ('yes', 'no') for row in rows.values())}")


if __name__ == "__main__":
    main()
