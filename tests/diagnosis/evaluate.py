"""Diagnoses recorded planted trainings and says what was right: python evaluate.py FOLDER [--md].

For each database of record.py in FOLDER: is the first hypothesis the label's cause, the first bad
step exactly the label's, its layer the label's producer, the verdict the label's.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MPNANNY = pathlib.Path(__file__).parents[2] / "build/release/bin/mpnanny"
WIDTHS = (46, 10, 10, 10, 10)


@dataclass(frozen=True)
class Judged:
    """What was right of one diagnosis; None is not judged."""

    name: str
    variant: int
    healthy: bool
    cause: bool | None
    step: bool | None
    producer: bool | None
    verdict: bool
    told: str  # what the diagnosis said, in a few words
    wanted: str


def one_of(value: Any, label: Any) -> bool:
    """A label is one value or several that are equally right."""
    return value in label if isinstance(label, (list, tuple)) else value == label


def same_place(layer: str, label: Any) -> bool:
    """A layer is a label's module, or its parameter or child; without a module, there is none.

    A layer may be told with its operator ("attn: aten.bmm (model.py:12)"); an operator alone ran
    outside of all modules.
    """
    module = "" if layer.startswith("aten.") else layer.split(": ")[0]
    names = label if isinstance(label, (list, tuple)) else [label]
    return any(
        not module if name is None else module == name or module.startswith(f"{name}.")
        for name in names
    )


def judge(label: dict[str, Any], answer: dict[str, Any]) -> Judged:
    """Compares an answer of diagnose_run with a label."""
    healthy = label["verdict"] == "healthy"
    bad = answer.get("first_bad") or {}
    causes = [each["cause"] for each in answer.get("hypotheses") or []]
    step, layer = bad.get("step"), bad.get("layer") or ""
    silent = answer["verdict"] == "healthy"  # names no producer because it sees no trouble
    top = causes[0] if causes else None
    return Judged(
        label["name"],
        label["variant"],
        healthy,
        None if healthy else one_of(top, label["cause"]),
        None if healthy or label["first_bad"] is None else one_of(step, label["first_bad"]),
        None if healthy else not silent and same_place(layer, label["producer"]),
        one_of(answer["verdict"], label["verdict"]),
        f"{answer['verdict']}, {top}, step {step}, {layer or '-'}",
        f"{label['verdict']}, {label['cause']}, step {label['first_bad']}, {label['producer']}",
    )


def diagnose(database: pathlib.Path, program: pathlib.Path = MPNANNY) -> dict[str, Any]:
    """The structured answer of `mpnanny diagnose`."""
    run = subprocess.run(
        [program, "diagnose", str(database), "--format", "json"], capture_output=True, text=True
    )
    if run.returncode not in (0, 1):
        raise RuntimeError(f"{database.name}: exit code {run.returncode}: {run.stderr.strip()}")
    return json.loads(run.stdout)


def evaluate(folder: pathlib.Path, program: pathlib.Path = MPNANNY) -> list[Judged]:
    """All recordings of a folder, in order of their names."""
    return [
        judge(json.loads(label.read_text()), diagnose(label.with_suffix(".db"), program))
        for label in sorted(folder.glob("*.json"))
    ]


def share(answers: Sequence[bool | None]) -> str:
    """How many are right of those that are judged."""
    judged = [answer for answer in answers if answer is not None]
    return f"{sum(judged)} of {len(judged)}"


def table(results: Sequence[Judged], markdown: bool) -> str:
    """A line a training, those that are wrong with what was said and what was wanted."""
    words = {True: "yes", False: "NO", None: "-"}
    columns = ("training", "cause", "step", "producer", "verdict")
    rows: list[tuple[str, ...]] = []
    for each in results:
        right = [words[a] for a in (each.cause, each.step, each.producer, each.verdict)]
        wrong = "NO" in right
        said = f"said {each.told}; wanted {each.wanted}" if wrong else ""
        rows.append((f"{each.name} {each.variant}", *right, said))
    planted = [each for each in results if not each.healthy]
    healthy = [each for each in results if each.healthy]
    closing = [
        f"cause {share([e.cause for e in planted])}, step {share([e.step for e in planted])}, "
        f"producer {share([e.producer for e in planted])}, "
        f"verdict {share([e.verdict for e in planted])}",
        f"healthy ones called healthy: {share([e.verdict for e in healthy])}",
    ]
    if markdown:
        lines = ["| " + " | ".join((*columns, "")) + " |", "|---" * 6 + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([*lines, "", *closing])
    lines = [
        "".join(cell.ljust(width) for cell, width in zip(row, WIDTHS, strict=False))
        + (f"\n    {row[5]}" if len(row) > 5 and row[5] else "")
        for row in [columns, *rows]
    ]
    return "\n".join([*lines, *closing])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path, default=MPNANNY)
    parser.add_argument("--md", action="store_true")
    options = parser.parse_args()
    print(table(evaluate(options.folder, options.program), options.md))


if __name__ == "__main__":
    main()
