#!/usr/bin/env python3
"""Diagnoses the log lines that public training chronicles show.

What came of it stands in bench/evaluations/public_logs/README.md.

The logs are not part of this project: clone the repositories into one folder first. Reads the
chronicles at their newest commit with `git show`, so that a bare clone does.

Usage: bench/public_logs.py --repos FOLDER [--bin build/release/bin] [--full] [NAME…]
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
FENCE = "```"


@dataclass(frozen=True)
class Stretch:
    """Iterations that a chronicle shows in its fenced blocks, first and last included."""

    name: str
    repository: str
    file: str
    first: int
    last: int


BIGSCIENCE = "bigscience-workshop/bigscience"
STRETCHES = (
    Stretch("13b-spike", BIGSCIENCE, "train/tr1-13B-base/chronicles.md", 29020, 29090),
    Stretch("104b-1", BIGSCIENCE, "train/tr8-104B-wide/chronicles.md", 7000, 7220),
    Stretch("104b-2", BIGSCIENCE, "train/tr8-104B-wide/chronicles.md", 6900, 6940),
    Stretch("104b-11", BIGSCIENCE, "train/tr8-104B-wide/chronicles.md", 11446, 11448),
    Stretch("104b-12", BIGSCIENCE, "train/tr8-104B-wide/chronicles.md", 8738, 9027),
    Stretch("104b-reset", BIGSCIENCE, "train/tr8b-104B/chronicles.md", 17060, 17068),
    Stretch("176b-spike", BIGSCIENCE, "train/tr11-176B-ml/chronicles.md", 31214, 31251),
)


def repository(folder: pathlib.Path, name: str) -> pathlib.Path:
    """A clone of owner/name below `folder`, under one of the usual names."""
    owner, short = name.split("/")
    for each in (short, f"{short}.git", name, f"{owner}+{short}", f"{owner}+{short}/repo"):
        if (folder / each / "HEAD").exists() or (folder / each / ".git").exists():
            return folder / each
    raise SystemExit(f"no clone of {name} in {folder}: git clone https://github.com/{name}")


def git(folder: pathlib.Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    ).stdout


def lines_of(stretch: Stretch, text: str) -> list[str]:
    """The lines of fenced blocks from the first iteration's to the last one's, as they stand."""
    found: list[str] = []
    fenced = inside = False
    for line in text.splitlines():
        if line.strip().startswith(FENCE):
            fenced = not fenced
            continue
        iteration = re.search(r"\biteration\s+(\d+)\s*/", line)
        number = int(iteration.group(1)) if iteration else None
        if number == stretch.first:
            inside = True
        if inside and fenced:
            found.append(line)
        if inside and number == stretch.last:
            return found
    raise SystemExit(f"{stretch.name}: iterations {stretch.first} to {stretch.last} not found")


def diagnose(program: pathlib.Path, text: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "train.log"
        log.write_text(text)
        run = subprocess.run(
            [program, "diagnose", "--log-path", log.name, "--format", "json"],
            capture_output=True,
            text=True,
            cwd=folder,
        )
    if run.returncode not in (0, 1):
        raise SystemExit(f"exit code {run.returncode}: {run.stderr}")
    return json.loads(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repos", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--full", action="store_true", help="the whole answer")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    for stretch in STRETCHES:
        if options.names and stretch.name not in options.names:
            continue
        clone = repository(options.repos, stretch.repository)
        lines = lines_of(stretch, git(clone, "show", f"HEAD:{stretch.file}"))
        answer = diagnose(options.bin.resolve() / "mpnanny", "\n".join(lines) + "\n")
        commit = git(clone, "rev-parse", "--short=10", "HEAD").strip()
        print(f"\n== {stretch.name}: {stretch.file} at {commit}, {len(lines)} lines")
        if options.full:
            print(json.dumps(answer, indent=1))
            continue
        bad = answer.get("first_bad") or {}
        print(f"verdict {answer['verdict']}; first bad {json.dumps(bad)}")
        for each in answer.get("hypotheses") or []:
            print(f"  {each['confidence']:.2f} {each['cause']}: {'; '.join(each['evidence'])}")
        for event in answer.get("timeline") or []:
            print(f"  - {json.dumps(event)}")


if __name__ == "__main__":
    main()
