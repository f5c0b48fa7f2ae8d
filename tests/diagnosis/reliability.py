"""How often the first cause is right, by its confidence:
python reliability.py RECORDINGS… [--record FOLDER…] [--program FILE] [--package FOLDER].

A recording is a database with its label beside it (NAME.db, NAME.json). `record.py` makes those of
the planted trainings: the first cause is right if it is the label's case. `--record` makes those of
labelled programs (tests/shadow/*, tests/diagnosis/blind: lines marked "# @fault"): it is right if
it points at a marked line and says the label's precision. What is healthy has no first cause.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from evaluate import MPNANNY, diagnose, one_of

SAYS = {"proven": True, "excluded": False}
BINS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)
MOST_SECONDS = 600


def record(folder: pathlib.Path, out: pathlib.Path, command: Sequence[str]) -> None:
    """Runs each program of `folder` under the monitor; what is recorded already stays."""
    labels: dict[str, Any] = {}
    for file in sorted(folder.glob("labels*.json")):
        labels |= json.loads(file.read_text())
    out.mkdir(parents=True, exist_ok=True)
    for name, label in sorted(labels.items()):
        program = folder / f"{name.removesuffix('.py')}.py"
        database = out / f"{folder.name}-{program.stem}.db"
        if database.exists():
            continue
        lines = program.read_text().splitlines()
        marked = [number for number, line in enumerate(lines, 1) if "# @fault" in line]
        label = {"name": program.name, "marked": marked, **label}
        database.with_suffix(".json").write_text(json.dumps(label, indent=1) + "\n")
        subprocess.run(
            [*command, "--db", database.resolve(), "--", sys.executable, program.resolve()],
            cwd=out,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            timeout=MOST_SECONDS,
            check=False,
        )


def points_at(hypothesis: dict[str, Any], label: dict[str, Any]) -> bool:
    """Whether one of the lines of the hypothesis is marked in the label's program."""
    for place in hypothesis["lines"]:
        file, _, line = place.rpartition(":")
        if os.path.basename(file) == label["name"] and int(line) in label["marked"]:
            return True
    return False


def right(answer: dict[str, Any], label: dict[str, Any]) -> bool:
    """Whether the first cause of the answer is the label's."""
    first = answer["hypotheses"][0]
    if "marked" not in label:
        return one_of(first["cause"], label["cause"])
    said = SAYS.get((answer["first_bad"] or {}).get("precision"))
    return points_at(first, label) and (label["precision"] is None or said == label["precision"])


def is_healthy(label: dict[str, Any]) -> bool:
    return "healthy" in (label.get("kind"), label.get("verdict"))


def judge(folders: Iterable[pathlib.Path], program: pathlib.Path) -> dict[str, Any]:
    """The first causes' confidence and whether they were right; what has none; healthy ones."""
    causes: list[tuple[float, bool]] = []
    none = healthy = flagged = 0
    for folder in folders:
        for file in sorted(folder.glob("*.json")):
            label = json.loads(file.read_text())
            answer = diagnose(file.with_suffix(".db"), program)
            if is_healthy(label):
                healthy += 1
                flagged += answer["verdict"] in ("broken", "degraded")
            elif not answer["hypotheses"]:
                none += 1
            else:
                causes.append((answer["hypotheses"][0]["confidence"], right(answer, label)))
    return {"causes": causes, "none": none, "healthy": healthy, "flagged": flagged}


def table(judged: dict[str, Any]) -> str:
    """A line for each range of confidence."""
    bins: dict[int, list[bool]] = defaultdict(list)
    for confidence, correct in judged["causes"]:
        bins[sum(confidence >= edge for edge in BINS) - 1].append(correct)
    lines = ["| confidence | right | of | share |", "|---|---|---|---|"]
    for index in sorted(bins):
        answers = bins[index]
        upper = min(BINS[index + 1], 1.0)
        share = sum(answers) / len(answers)
        row = f"| {BINS[index]:.1f}–{upper:.1f} | {sum(answers)} | {len(answers)} | {share:.2f} |"
        lines.append(row)
    loud = [correct for confidence, correct in judged["causes"] if confidence > 0.6]
    broken = len(judged["causes"]) + judged["none"]
    lines += [
        "",
        f"first cause right: {sum(c for _, c in judged['causes'])} of {broken};"
        f" no cause given: {judged['none']}",
        f"wrong above 0.6: {len(loud) - sum(loud)} of {len(loud)}",
        f"healthy that are flagged: {judged['flagged']} of {judged['healthy']}",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", type=pathlib.Path, nargs="+")
    parser.add_argument("--record", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--program", type=pathlib.Path, default=MPNANNY)
    parser.add_argument("--package", type=pathlib.Path, help="folder that holds the monitor")
    options = parser.parse_args()
    command = [str(options.program), "run", "--quiet"]
    if options.package:
        command += ["--package", str(options.package.resolve())]
    for folder in options.record:
        record(folder, options.recordings[0], command)
    print(table(judge(options.recordings, options.program)))


if __name__ == "__main__":
    main()
