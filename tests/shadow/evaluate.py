"""Runs labelled training programs under the monitor and says what its shadow steps got right:
python evaluate.py FOLDER… [--json FILE] [--only TEXT].

A program's mistake is on the lines that end in "# @fault". It is hit if one of the first two
findings points at such a line: as its own or as one that its cure names. What the first finding
says of precision must be the label's. A healthy program must get nothing above INFO.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

MPNANNY = pathlib.Path(__file__).parents[2] / "build/release/bin/mpnanny"
AS_DEVICE = pathlib.Path(__file__).parent / "as_device.py"
SEVERITIES = ("ERROR", "WARNING", "INFO")
LOOKED_AT = 2  # findings that a reader can be asked to look at
AT_ONCE = 2
MOST_SECONDS = 600
PRECISION = {"proven": True, "excluded": False}


@dataclass
class Found:
    """One finding, as it is in the database. `lines` are those that it points at, in the program
    itself."""

    severity: str
    kind: str
    operator: str
    source: str
    phase: str
    step: int
    precision: str
    lines: list[int]
    error_in: float | None
    error_out: float | None
    reach: list[str]

    @property
    def above_info(self) -> bool:
        return self.severity != "INFO"

    def __str__(self) -> str:
        line = self.source.rpartition(":")[2] or "-"
        cure = f" cure {self.lines}" if self.lines else ""
        reach = f" -> {', '.join(self.reach)}" if self.reach else ""
        return (
            f"{self.severity} {self.kind} {self.operator} line {line} {self.phase} step"
            f" {self.step} {self.precision}{cure}{reach}"
        )


@dataclass
class Judged:
    """What was right of one program; None is not judged."""

    name: str
    healthy: bool
    hit: bool | None
    precision: bool | None
    false: bool | None  # a healthy program got a finding above INFO
    marked: list[int]
    wanted: str
    seconds: float
    exit_code: int
    shadow_steps: int
    findings: list[Found] = field(default_factory=list)
    trouble: str = ""  # what the monitor could not do, or why there is no recording


def marked_lines(program: pathlib.Path) -> list[int]:
    lines = program.read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if "# @fault" in line]


def lines_of(program: pathlib.Path, sources: Iterable[str | None]) -> list[int]:
    """The lines of `sources` ("file:line") that are in `program`."""
    found = []
    for source in sources:
        file, _, line = (source or "").rpartition(":")
        if os.path.basename(file) == program.name and line.isdigit():
            found.append(int(line))
    return sorted(set(found))


def read(database: pathlib.Path, program: pathlib.Path) -> tuple[list[Found], int, str]:
    """The findings of a recording, and of those beside it that other models of the process have,
    the worst first; how many shadow steps; what went wrong.
    """
    rows: list[sqlite3.Row] = []
    notes: list[str] = []
    steps = 0
    others = sorted(database.parent.glob(f"{database.stem}-*{database.suffix}"))
    for each in (database, *others):
        with contextlib.closing(sqlite3.connect(f"file:{each}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            rows += connection.execute("SELECT * FROM shadow_finding").fetchall()
            steps += connection.execute("SELECT count(*) FROM shadow_step").fetchone()[0]
            notes += [row[0] for row in connection.execute("SELECT notes FROM run") if row[0]]
    rows.sort(key=lambda row: (SEVERITIES.index(row["severity"]), row["step"], row["finding_id"]))
    found = []
    for row in rows:
        cure = json.loads(row["cure"]) if row["cure"] else {}
        reach = json.loads(row["reach"]) if row["reach"] else []
        found.append(
            Found(
                severity=row["severity"],
                kind=row["kind"],
                operator=row["operator"],
                source=row["source"] or "",
                phase=row["phase"] or "",
                step=row["step"],
                precision=row["precision"],
                lines=lines_of(program, [row["source"], *cure.get("lines", [])]),
                error_in=row["error_in"],
                error_out=row["error_out"],
                reach=[f"{each['what']} {each['name']}".strip() for each in reach[:3]],
            )
        )
    trouble = [note for text in notes for note in json.loads(text) if "shadow" in note]
    return found, steps, "; ".join(trouble)


def judge(label: dict[str, Any], marked: Sequence[int], found: Sequence[Found]) -> dict[str, Any]:
    """What of `found` is right: hit, precision, false."""
    if label["kind"] == "healthy":
        return {
            "hit": None,
            "precision": None,
            "false": any(each.above_info for each in found),
        }
    hit = any(set(each.lines) & set(marked) for each in found[:LOOKED_AT])
    wanted = label["precision"]
    if wanted is None:
        return {"hit": hit, "precision": None, "false": None}
    said = PRECISION.get(found[0].precision) if found else False
    return {"hit": hit, "precision": said == wanted, "false": None}


def run(
    program: pathlib.Path, label: dict[str, Any], command: Sequence[str], python: Sequence[str]
) -> Judged:
    """Trains `program` under the monitor, by the command `python`; judges what that found."""
    marked = marked_lines(program)
    healthy = label["kind"] == "healthy"
    with tempfile.TemporaryDirectory() as folder:
        database = pathlib.Path(folder) / "metrics.db"
        began = time.monotonic()
        try:
            done = subprocess.run(
                [*command, "--db", database, "--", *python, program.resolve()],
                cwd=folder,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                timeout=MOST_SECONDS,
            )
            code, said = done.returncode, done.stderr
        except subprocess.TimeoutExpired:
            code, said = -1, f"not over after {MOST_SECONDS} seconds"
        seconds = time.monotonic() - began
        found: list[Found] = []
        steps = 0
        try:
            found, steps, trouble = read(database, program)
        except sqlite3.Error as error:
            trouble = f"no recording: {error}: {said[-400:]}"
    if code:
        trouble = f"{trouble} exit code {code}: {said[-400:]}".strip()
    judged = judge(label, marked, found)
    if trouble.startswith("no recording"):
        judged = {key: None if value is None or healthy else False for key, value in judged.items()}
    return Judged(
        name=program.stem,
        healthy=healthy,
        marked=marked,
        wanted=label["what"],
        seconds=seconds,
        exit_code=code,
        shadow_steps=steps,
        findings=found,
        trouble=trouble,
        **judged,
    )


def programs(folder: pathlib.Path) -> dict[pathlib.Path, dict[str, Any]]:
    """The programs of a folder, each with its label."""
    labels = json.loads((folder / "labels.json").read_text())
    return {folder / f"{name.removesuffix('.py')}.py": labels[name] for name in sorted(labels)}


def evaluate(
    chosen: dict[pathlib.Path, dict[str, Any]],
    command: Sequence[str],
    python: Sequence[str] = (sys.executable,),
) -> Iterable[Judged]:
    """In order; the next ones train meanwhile."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(lambda each: run(each, chosen[each], command, python), chosen)


def line(judged: Judged) -> str:
    """One program in a line; what is wrong with what was found and what was wanted."""
    if judged.healthy:
        good = not judged.false
        words = "none " if judged.false is None else "FALSE" if judged.false else "ok   "
    else:
        good = bool(judged.hit) and judged.precision is not False
        words = "hit  " if judged.hit else "MISS "
        words += {True: " precision", False: " WRONG    ", None: " -        "}[judged.precision]
    text = f"{words} {judged.name}  {judged.seconds:.0f} s, {judged.shadow_steps} shadow steps"
    if judged.trouble:
        text += f"\n        trouble: {judged.trouble}"
    if good:
        return text
    if not judged.healthy:
        text += f"\n        wanted lines {judged.marked}: {judged.wanted}"
    shown = [each for each in judged.findings if not judged.healthy or each.above_info][:4]
    return "\n".join([text, *(f"        {each}" for each in shown)])


def share(answers: Iterable[bool | None]) -> str:
    counted = [answer for answer in answers if answer is not None]
    return f"{sum(counted)} of {len(counted)}"


def totals(results: Sequence[Judged]) -> str:
    return (
        f"operator and line {share(each.hit for each in results)}, precision"
        f" {share(each.precision for each in results)}, false {share(e.false for e in results)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=pathlib.Path, nargs="+")
    parser.add_argument("--program", type=pathlib.Path, default=MPNANNY)
    parser.add_argument("--package", type=pathlib.Path, help="folder that holds the monitor")
    parser.add_argument("--only", default="", help="programs whose names hold this")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--device", action="store_true", help="tensors are taken for a device's")
    options = parser.parse_args()
    command = [str(options.program), "run", "--quiet"]
    if options.package:
        command += ["--package", str(options.package.resolve())]
    results: dict[str, list[Judged]] = {}
    for folder in options.folders:
        print(f"{folder.name}:")
        judged = results[folder.name] = []
        chosen = programs(folder)
        chosen = {path: label for path, label in chosen.items() if options.only in path.stem}
        python = [sys.executable, *([str(AS_DEVICE)] if options.device else [])]
        for each in evaluate(chosen, command, python):
            judged.append(each)
            print("  " + line(each), flush=True)
        print(f"  {totals(judged)}\n", flush=True)
    print(totals([each for judged in results.values() for each in judged]))
    if options.json:
        table = {name: [asdict(each) for each in judged] for name, judged in results.items()}
        options.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
