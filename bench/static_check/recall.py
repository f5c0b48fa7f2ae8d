#!/usr/bin/env python3
"""Recall of the static check over public before/after pairs (pairs.jsonl, see README.md).

Usage: bench/static_check/recall.py --repos DIR [--program build/release/bin/mpnanny] [--json]

DIR holds one folder a repository, named owner+name, with a git directory in it. For each pair and
each side the sources of the repository at that commit are exported into a temporary folder and
checked as one project with every rule (`--extend-select all`); --defaults leaves it at what a user
gets who asks for nothing, --candidates adds the places that a reader is asked to judge. A pair is
caught when a finding of the pair's class, or of a class it accepts, lies in its file and overlaps
the marked lines before the fix; it is silent when no such finding remains in the marked lines after
it. Recall is the share of pairs with both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

HERE = Path(__file__).resolve().parent
CODE = (".py", ".ipynb")
CONFIGURATION = (".json", ".yaml", ".yml", ".sh", ".toml", ".cfg")
SIDES = ("before", "after")
READ = 15  # candidates that somebody reads
KEPT = ("rule", "severity", "line", "message", "rank")  # of a finding, in --json


@dataclass(frozen=True)
class Limits:
    """What of a repository is exported and how long a check may take."""

    python_files: int = 1500
    configuration_bytes: int = 256 * 1024
    code_bytes: int = 4 * 1024 * 1024
    seconds: float = 120.0


@dataclass
class Side:
    """What the checker said about one version of the marked lines."""

    findings: list[dict[str, Any]] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    scope: str = ""
    files: int = 0
    error: str = ""


@dataclass
class Outcome:
    """Both sides of a pair and the verdict."""

    pair: dict[str, Any]
    before: Side
    after: Side

    @property
    def error(self) -> str:
        return self.before.error or self.after.error

    @property
    def caught(self) -> bool:
        return not self.error and bool(self.before.findings)

    @property
    def silent(self) -> bool:
        return not self.error and not self.after.findings

    @property
    def both(self) -> bool:
        return self.caught and self.silent


def git(directory: Path, *arguments: str, given: bytes | None = None) -> bytes:
    """Runs git in a git directory and returns what it prints; raises when it fails."""
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout


def git_directory(repos: Path, repo: str) -> Path:
    """Finds the git directory of owner/name under owner+name, at most two levels down."""
    home = repos / repo.replace("/", "+")
    for candidate in (home, *sorted(home.glob("*")), *sorted(home.glob("*/.git"))):
        if (candidate / "HEAD").is_file() and (candidate / "objects").is_dir():
            return candidate
    raise FileNotFoundError(f"no git directory in {home}")


@dataclass(frozen=True)
class Blob:
    """A file of a commit."""

    object: str
    size: int
    path: str


def list_blobs(directory: Path, commit: str) -> list[Blob]:
    """All ordinary files of a commit that git has at hand (symbolic links left out)."""
    blobs = []
    for entry in git(directory, "ls-tree", "-r", "-l", "-z", commit).split(b"\0"):
        if not entry:
            continue
        head, path = entry.split(b"\t", 1)
        mode, kind, name, size = head.split()
        if kind == b"blob" and mode != b"120000" and size.isdigit():
            blobs.append(Blob(name.decode(), int(size), path.decode("utf-8", "replace")))
    return blobs


def narrow(blobs: list[Blob], path: str, limit: int) -> tuple[list[Blob], str]:
    """Keeps the whole repository if it is small enough, else the folder that holds `path`.

    Goes down from the top-level folder one step at a time while more than `limit` Python files
    remain, but never below the folder of the file itself.
    """
    folder = ""
    parents = [str(p) for p in PurePosixPath(path).parents if str(p) != "."][::-1]
    for step in ["", *parents]:
        folder = step
        kept = [b for b in blobs if not folder or b.path.startswith(folder + "/")]
        if sum(b.path.endswith(".py") for b in kept) <= limit:
            break
    if not parents and len(kept) > limit:  # a script beside everything: its own level only
        kept = [b for b in blobs if "/" not in b.path]
        folder = "top level"
    return kept, folder


def export(
    directory: Path, commit: str, path: str, into: Path, limits: Limits, keep: bool
) -> tuple[str, int]:
    """Writes the sources and configuration of a commit; returns the folder kept and the count.

    With `keep` a note beside the tree lets a later run use it as it is.
    """
    done = into.parent / (into.name + ".done")  # beside the tree: only a cached tree has one
    if done.is_file() and (stamp := json.loads(done.read_text()))["commit"] == commit:
        return stamp["scope"], stamp["files"]
    blobs, folder = narrow(list_blobs(directory, commit), path, limits.python_files)
    wanted = [
        b
        for b in blobs
        if b.path == path
        or (b.path.endswith(CODE) and b.size <= limits.code_bytes)
        or (b.path.endswith(CONFIGURATION) and b.size <= limits.configuration_bytes)
    ]
    names = "".join(b.object + "\n" for b in wanted).encode()
    stream = git(directory, "cat-file", "--batch", given=names)
    position = written = 0
    for blob in wanted:
        end = stream.index(b"\n", position)
        head = stream[position:end].split()
        position = end + 1
        if len(head) != 3:  # "<object> missing": the copy at hand lacks it
            continue
        content = stream[position : position + int(head[2])]
        position += int(head[2]) + 1
        target = into / blob.path
        if target.resolve().is_relative_to(into.resolve()):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            written += 1
    if not (into / path.split(":")[0]).is_file():
        raise FileNotFoundError(f"{path} at {commit[:12]}")
    if keep:
        done.write_text(json.dumps({"commit": commit, "scope": folder, "files": written}))
    return folder, written


@contextmanager
def source_tree(cache: Path | None, pair: dict[str, Any], side: str) -> Iterator[Path]:
    """A folder for one version: a temporary one, or one of the cache that later runs find again."""
    if cache is None:
        with tempfile.TemporaryDirectory(prefix="mpnanny-recall-") as temporary:
            yield Path(temporary).resolve()
        return
    folder = cache.resolve() / pair["id"] / side
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


def in_place(finding: dict[str, Any], path: str, lines: list[int]) -> bool:
    """Whether a finding lies in the pair's file and overlaps its lines."""
    first = int(finding["line"])
    last = max(first, int(finding.get("end_line") or first))
    return str(finding["path"]).startswith(path) and first <= lines[1] and last >= lines[0]


def check(program: Path, folder: Path, limits: Limits, asked: list[str]) -> list[dict[str, Any]]:
    """Checks a folder as one project and returns its findings, paths relative to the folder."""
    command = [str(program), "check", str(folder)]
    command += ["--format", "json", "--min-severity", "info", "--fail-on", "error"]
    command += asked
    done = subprocess.run(command, capture_output=True, timeout=limits.seconds, check=False)
    try:
        findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    except (ValueError, KeyError) as error:
        text = done.stderr.decode("utf-8", "replace").strip() or str(error)
        raise RuntimeError(f"exit {done.returncode}: {text[:200]}") from error
    prefix = str(folder) + "/"
    for finding in findings:
        finding["path"] = str(finding["path"]).removeprefix(prefix)
    return findings


def candidates(program: Path, folder: Path, limits: Limits) -> list[dict[str, Any]]:
    """The places that a reader is asked to judge, each with its rank (1: shown first)."""
    command = [str(program), "check", str(folder), "--detail", "candidates", "--format", "json"]
    done = subprocess.run(command, capture_output=True, timeout=limits.seconds, check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)["candidates"]
    for rank, candidate in enumerate(found, start=1):
        candidate["path"] = str(candidate["path"]).removeprefix(str(folder) + "/")
        candidate["rank"] = rank
        candidate["message"] = candidate["hazard"]
    return found


def judge_side(
    pair: dict[str, Any], side: str, arguments: argparse.Namespace, limits: Limits
) -> Side:
    """Exports and checks one version, and sorts its findings in the marked lines."""
    names = {pair["class"], *pair["accept"]}
    names |= {rule for old, rule in arguments.alias if old in names}
    result = Side()
    try:
        directory = git_directory(arguments.repos, pair["repo"])
        path = pair["path"]
        with source_tree(arguments.cache, pair, side) as folder:
            result.scope, result.files = export(
                directory,
                pair[side],
                path.split(":")[0],
                folder,
                limits,
                arguments.cache is not None,
            )
            found = check(arguments.program, folder, limits, arguments.asked)
            if arguments.candidates:
                found += candidates(arguments.program, folder, limits)
            for finding in found:
                if not in_place(finding, path, pair[side + "_lines"]):
                    continue
                if finding["rule"] in names:
                    kept = {k: finding.get(k) for k in KEPT}
                    result.findings.append(kept)
                else:
                    result.others.append(f"{finding['rule']}:{finding['line']}")
    except subprocess.TimeoutExpired:
        result.error = f"{side}: no answer in {limits.seconds:.0f} s"
    except subprocess.CalledProcessError as error:
        result.error = f"{side}: git: {error.stderr.decode('utf-8', 'replace').strip()[:160]}"
    except (OSError, RuntimeError) as error:
        result.error = f"{side}: {error}"
    return result


def judge(pair: dict[str, Any], arguments: argparse.Namespace, limits: Limits) -> Outcome:
    """Judges both sides of a pair."""
    return Outcome(pair, *(judge_side(pair, side, arguments, limits) for side in SIDES))


def shares(outcomes: list[Outcome]) -> dict[str, Any]:
    """Counts of caught, silent and both, the recall figure, and the pairs that somebody finds who
    reads the findings and the first candidates."""
    both = sum(o.both for o in outcomes)
    near = sum(
        any((f.get("rank") or 0) <= READ for f in o.before.findings) and not o.error
        for o in outcomes
    )
    return {
        f"among_first_{READ}": near,
        "pairs": len(outcomes),
        "caught": sum(o.caught for o in outcomes),
        "silent": sum(o.silent for o in outcomes),
        "both": both,
        "recall": round(both / len(outcomes), 4) if outcomes else None,
        "errors": sum(bool(o.error) for o in outcomes),
    }


def by_class(outcomes: list[Outcome]) -> dict[str, dict[str, Any]]:
    """The same figures for each class, the largest class first."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.pair["class"]].append(outcome)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return {name: shares(group) for name, group in ordered}


def table(outcomes: list[Outcome]) -> Iterator[str]:
    """One line a pair, the figures by class, and the totals."""
    for o in outcomes:
        found = ", ".join(f"{f['rule']}:{f['line']}" for f in o.before.findings[:3])
        left = ", ".join(f"{f['rule']}:{f['line']}" for f in o.after.findings[:3])
        marks = ("caught" if o.caught else "-", "silent" if o.silent else "-")
        line = f"{o.pair['id']:32} {o.pair['class']:28} {marks[0]:7} {marks[1]:7} {found}"
        yield (line + (f"  after: {left}" if left else "")).rstrip()
        if o.error:
            yield f"    error: {o.error}"
        elif not o.caught and o.before.others:
            yield f"    other findings there: {', '.join(o.before.others[:4])}"
        if o.before.scope:
            yield f"    only {o.before.scope} was exported ({o.before.files} files)"
    yield ""
    for name, figures in by_class(outcomes).items():
        yield f"{name:32} {figures['both']:3} of {figures['pairs']:3}"
    yield ""
    yield ", ".join(f"{name} {figure}" for name, figure in shares(outcomes).items())


def alias(text: str) -> tuple[str, str]:
    """Parses CLASS=RULE."""
    name, separator, rule = text.partition("=")
    if not (name and separator and rule):
        raise argparse.ArgumentTypeError("CLASS=RULE")
    return name, rule


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repos", type=Path, required=True, help="folder of owner+name folders")
    parser.add_argument("--program", type=Path, default=Path("build/release/bin/mpnanny"))
    parser.add_argument("--pairs", type=Path, default=HERE / "pairs.jsonl")
    parser.add_argument("--cache", type=Path, help="folder to keep the exported sources in")
    parser.add_argument("--only", help="only pairs whose id or class contains this")
    parser.add_argument(
        "--defaults",
        dest="asked",
        action="store_const",
        const=[],
        default=["--extend-select", "all"],
        help="without rules that are off by default",
    )
    parser.add_argument(
        "--candidates", action="store_true", help="also the places that a reader has to judge"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="the whole result as JSON")
    parser.add_argument(
        "--alias",
        type=alias,
        action="append",
        default=[],
        metavar="CLASS=RULE",
        help="a rule that reports this class under another name",
    )
    arguments = parser.parse_args()
    lines = arguments.pairs.read_text(encoding="utf-8").splitlines()
    pairs = [json.loads(line) for line in lines if line.strip()]
    if arguments.only:
        pairs = [p for p in pairs if arguments.only in p["id"] or arguments.only in p["class"]]
    limits = Limits()
    with ThreadPoolExecutor(max_workers=max(1, arguments.jobs)) as pool:
        outcomes = list(pool.map(lambda pair: judge(pair, arguments, limits), pairs))
    if arguments.json:
        rows = [
            {
                "id": o.pair["id"],
                "class": o.pair["class"],
                "caught": o.caught,
                "silent": o.silent,
                "before": asdict(o.before),
                "after": asdict(o.after),
            }
            for o in outcomes
        ]
        result = {"total": shares(outcomes), "by_class": by_class(outcomes), "pairs": rows}
        print(json.dumps(result, indent=2))
    else:
        print("\n".join(table(outcomes)))
    return 1 if any(o.error for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
