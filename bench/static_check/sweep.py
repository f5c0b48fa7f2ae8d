#!/usr/bin/env python3
"""Runs the static check over many code bases and draws findings for a reader to judge.

See bench/README.md.

Usage: bench/static_check/sweep.py --corpora DIR --program build/release/bin/mpnanny --seed HASH
           [--draw 100 --out FILE]
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import random
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOST_A_CODE_BASE = 15
CONTEXT_LINES = 12
SEVERITIES = ("error", "warning", "info")
# Folders that the check leaves out; their lines must not make the rate look smaller.
SKIPPED = frozenset(
    "tests test docs doc build dist env venv third_party node_modules site-packages wandb".split()
)


@dataclasses.dataclass
class CodeBase:
    name: str
    commit: str
    folder: pathlib.Path
    files: int = 0  # files that were parsed and checked
    skipped: int = 0  # files that never mention torch, or could not be checked
    lines: int = 0  # non-blank lines of the Python files outside tests and docs
    seconds: float = 0
    findings: list[dict[str, object]] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def count(self, severity: str) -> int:
        return sum(finding["severity"] == severity for finding in self.findings)

    def rate(self) -> float:
        """Errors and warnings per 10,000 lines."""
        return 1e4 * (self.count("error") + self.count("warning")) / max(self.lines, 1)


def count_lines(folder: pathlib.Path) -> int:
    total = 0
    for path in folder.rglob("*.py"):
        parents = path.relative_to(folder).parts[:-1]
        if path.is_file() and not any(p in SKIPPED or p.startswith(".") for p in parents):
            total += sum(1 for line in path.read_bytes().splitlines() if line.strip())
    return total


def check(program: pathlib.Path, folder: pathlib.Path) -> CodeBase:
    """Checks one folder as one project; the time is that of the whole process."""
    commit = folder.with_name(folder.name + ".commit")
    base = CodeBase(
        folder.name, commit.read_text().strip() if commit.is_file() else "unknown", folder
    )
    start = time.perf_counter()
    done = subprocess.run(
        [program, "check", "--format", "json", "."], cwd=folder, capture_output=True, text=True
    )
    base.seconds = time.perf_counter() - start
    if done.returncode not in (0, 1):
        sys.exit(f"{folder.name}: the check ended with {done.returncode}\n{done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    base.findings, base.notes = report["findings"], report["notes"]
    base.files, base.skipped = report["files_scanned"], report["files_skipped"]
    if report.get("total", len(base.findings)) != len(base.findings):
        sys.exit(f"{folder.name}: {report['total']} findings, {len(base.findings)} were told")
    base.lines = count_lines(folder)
    return base


def draw(bases: list[CodeBase], seed: str, wanted: int) -> list[tuple[CodeBase, dict[str, object]]]:
    """Errors and warnings: one of each code base that has any, the rest from all that remain.

    The same findings and the same seed give the same draw; no code base gives more than 15.
    """
    chance = random.Random(seed)
    piles = {}
    for base in sorted(bases, key=lambda base: base.name):
        pile = [finding for finding in base.findings if finding["severity"] != "info"]
        pile.sort(key=lambda f: (f["path"], f["line"], f["column"], f["rule"]))
        chance.shuffle(pile)
        if pile:
            piles[base.name] = [(base, finding) for finding in pile[:MOST_A_CODE_BASE]]
    names = list(piles)
    chance.shuffle(names)
    chosen = [piles[name].pop() for name in names]
    rest = [pair for name in sorted(piles) for pair in piles[name]]
    chance.shuffle(rest)
    return (chosen + rest)[:wanted]


def source_lines(folder: pathlib.Path, path: str) -> list[str]:
    """The lines of a file, or of the cell that "nb.ipynb:cell 3" names."""
    name, _, cell = path.partition(".ipynb:cell ")
    if not cell:
        return (folder / path).read_text(encoding="utf-8", errors="replace").splitlines()
    notebook = json.loads((folder / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
    source = cells[int(cell) - 1].get("source", "")
    return (source if isinstance(source, str) else "".join(source)).splitlines()


def told(base: CodeBase, finding: dict[str, object]) -> dict[str, object]:
    """What a reader needs to judge a finding without the code base at hand."""
    path, line = str(finding["path"]).removeprefix("./"), int(str(finding["line"]))
    lines = source_lines(base.folder, path)
    first = max(1, line - CONTEXT_LINES)
    shown = lines[first - 1 : line + CONTEXT_LINES]
    return {
        "repo": base.name.replace("+", "/", 1),
        "commit": base.commit,
        "path": path,
        "line": line,
        "rule": finding["rule"],
        "severity": finding["severity"],
        "confidence": finding["confidence"],
        "message": finding["message"],
        "context": [
            f"{'>' if number == line else ' '}{number:5d} {text}"
            for number, text in enumerate(shown, first)
        ],
    }


def print_table(bases: list[CodeBase]) -> None:
    form = "{:44} {:>8} {:>6} {:>8} {:>8} {:>6} {:>8} {:>6} {:>9}"
    print(form.format("code base", "kLOC", "files", "skipped", "seconds", *SEVERITIES, "/10 kLOC"))
    for base in sorted(bases, key=lambda base: -base.lines):
        print(
            form.format(
                base.name[:44],
                f"{base.lines / 1e3:.1f}",
                base.files,
                base.skipped,
                f"{base.seconds:.2f}",
                *(base.count(severity) for severity in SEVERITIES),
                f"{base.rate():.2f}",
            )
        )
    lines = sum(base.lines for base in bases)
    counts = [sum(base.count(severity) for base in bases) for severity in SEVERITIES]
    print(
        form.format(
            f"all {len(bases)}",
            f"{lines / 1e3:.1f}",
            sum(base.files for base in bases),
            sum(base.skipped for base in bases),
            f"{sum(base.seconds for base in bases):.2f}",
            *counts,
            f"{1e4 * (counts[0] + counts[1]) / max(lines, 1):.2f}",
        )
    )


def print_rules(bases: list[CodeBase]) -> None:
    findings: collections.Counter[tuple[str, str]] = collections.Counter()
    where: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for base in bases:
        for finding in base.findings:
            key = (str(finding["severity"]), str(finding["rule"]))
            findings[key] += 1
            where[key].add(base.name)
    print(f"\n{'rule':40} {'severity':9} {'findings':>8} {'code bases':>10}")
    for (severity, rule), number in sorted(
        findings.items(), key=lambda item: (SEVERITIES.index(item[0][0]), -item[1])
    ):
        print(f"{rule:40} {severity:9} {number:8} {len(where[severity, rule]):10}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpora", type=pathlib.Path, required=True, help="a folder a code base")
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--seed", required=True, help="e.g. the commit that is measured")
    parser.add_argument("--draw", type=int, default=0, help="how many findings to draw")
    parser.add_argument("--out", type=pathlib.Path, help="where the drawn findings go (JSON lines)")
    parser.add_argument("--notes", action="store_true", help="show the notes of every code base")
    arguments = parser.parse_args()
    if bool(arguments.draw) != (arguments.out is not None):
        parser.error("--draw and --out go together")
    if arguments.out and arguments.out.resolve().is_relative_to(ROOT):
        parser.error("--out is inside the project; code of others does not go there")
    program = arguments.program.resolve()
    folders = sorted(path for path in arguments.corpora.iterdir() if path.is_dir())
    if not folders:
        parser.error(f"{arguments.corpora} holds no folders")
    bases = [check(program, folder) for folder in folders]
    print_table(bases)
    print_rules(bases)
    for base in bases:
        for note in base.notes:
            # A code base too large to be checked at once: facts did not cross its parts.
            if arguments.notes or "it was checked in" in note:
                print(f"{base.name}: {note}")
    if arguments.out:
        drawn = draw(bases, arguments.seed, arguments.draw)
        with arguments.out.open("w", encoding="utf-8") as out:
            for base, finding in drawn:
                out.write(json.dumps(told(base, finding), ensure_ascii=False) + "\n")
        shares = collections.Counter(base.name for base, _ in drawn)
        print(f"\n{len(drawn)} findings of {len(shares)} code bases drawn, seed {arguments.seed}")


if __name__ == "__main__":
    main()
