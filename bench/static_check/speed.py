#!/usr/bin/env python3
"""Speed of the static check beside bare tree-sitter parsing, TorchFix and ruff.

See bench/README.md.

Usage: bench/static_check/speed.py --corpora DIR --work DIR --bin build/release/bin
           [--torchfix PROGRAM] [--ruff PROGRAM] [--rounds 5] [--mb 24] [--profile]
"""

import argparse
import dataclasses
import json
import os
import pathlib
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time

IMPORTS_TORCH = re.compile(rb"^[ \t]*(?:import|from)[ \t]+torch\b", re.MULTILINE)
LARGEST_FILE = 2 << 20  # the check takes no larger one
LARGEST_PROJECT = 4 << 20  # bytes of one code base: many different ones, not two giants
SEED = "static_check_speed"
THREADS = (1, 2)


@dataclasses.dataclass
class Figure:
    """One program on one set of files and a number of threads, over all rounds."""

    name: str
    threads: int
    megabytes: float
    kilolines: float
    wall: list[float] = dataclasses.field(default_factory=list)
    cpu: list[float] = dataclasses.field(default_factory=list)

    def speed(self) -> float:
        return self.megabytes / statistics.median(self.wall)

    def cpu_speed(self) -> float:
        """MB for each second of processor time: what others do on the machine counts less."""
        return self.megabytes / statistics.median(self.cpu)


def stage(corpora: pathlib.Path, work: pathlib.Path, megabytes: float) -> None:
    """Copies files into work/torch (import torch), work/other (never name it) and work/small.

    Whole code bases in a seeded order until there are enough bytes; of a code base all files of the
    kind. work/small is a seeded share of work/torch for programs that are slow.
    """
    names = sorted(path for path in corpora.iterdir() if path.is_dir())
    random.Random(SEED).shuffle(names)
    limit = megabytes * 1e6
    total = {"torch": 0, "other": 0}
    for kind in (*total, "small"):
        shutil.rmtree(work / kind, ignore_errors=True)
    for base in names:
        files: dict[str, list[tuple[pathlib.Path, bytes]]] = {"torch": [], "other": []}
        for path in sorted(base.rglob("*.py")):
            if path.is_symlink() or not path.is_file():
                continue
            data = path.read_bytes()
            if not data.strip() or len(data) > LARGEST_FILE or b"\0" in data:
                continue
            if IMPORTS_TORCH.search(data):
                files["torch"].append((path, data))
            elif b"torch" not in data:
                files["other"].append((path, data))
        for kind, found in files.items():
            size = sum(len(data) for _, data in found)
            if total[kind] >= limit or size > LARGEST_PROJECT:
                continue
            total[kind] += size
            for path, data in found:
                target = work / kind / base.name / path.relative_to(base)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
    staged = sorted((work / "torch").rglob("*.py"))
    random.Random(SEED).shuffle(staged)
    size = 0
    for path in staged:
        if size >= limit / 40:
            break
        target = work / "small" / path.relative_to(work / "torch")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        size += path.stat().st_size


def size_of(folder: pathlib.Path) -> tuple[int, float, float]:
    """Files, megabytes and thousands of non-blank lines."""
    texts = [path.read_bytes() for path in folder.rglob("*.py") if path.is_file()]
    lines = sum(1 for text in texts for line in text.splitlines() if line.strip())
    return len(texts), sum(map(len, texts)) / 1e6, lines / 1e3


def run_process(
    command: list[str | pathlib.Path], environment: dict[str, str]
) -> tuple[float, float]:
    """Wall and processor seconds of a whole process; what it prints goes nowhere."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        command,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        sys.exit(f"{command[0]} ended with {done.returncode}\n{done.stderr[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Bench:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.program = arguments.bin.resolve() / "bench-static-check"
        self.figures: dict[tuple[str, int], Figure] = {}
        self.sizes = {kind: size_of(arguments.work / kind) for kind in ("torch", "other", "small")}
        self.told: dict[str, dict[str, object]] = {}

    def add(self, name: str, threads: int, kind: str, wall: float, cpu: float) -> None:
        _, megabytes, kilolines = self.sizes[kind]
        figure = self.figures.setdefault(
            (name, threads), Figure(name, threads, megabytes, kilolines)
        )
        figure.wall.append(wall)
        figure.cpu.append(cpu)

    def ours(self, kind: str, names: dict[str, str], *options: str) -> None:
        threads = ",".join(map(str, THREADS))
        done = subprocess.run(
            [self.program, self.arguments.work / kind, "--threads", threads, *options],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(done.stderr)
        for run in json.loads(done.stdout)["runs"]:
            if run["what"] in names:
                name = names[run["what"]]
                self.add(name, run["threads"], kind, run["wall_s"], run["cpu_s"])
                self.told[name] = run

    def peers(self, threads: int) -> None:
        folder = self.arguments.work.resolve()
        environment = {"RAYON_NUM_THREADS": str(threads)}
        if self.arguments.ruff:
            ruff = [self.arguments.ruff, "check", "--select", "ALL", "--no-cache", "--isolated"]
            spent = run_process([*ruff, "--silent", folder / "torch"], environment)
            self.add("ruff, all rules", threads, "torch", *spent)
        if self.arguments.torchfix:
            torchfix = [self.arguments.torchfix, "--select", "ALL", "-j", str(threads)]
            spent = run_process([*torchfix, folder / "small"], environment)
            self.add("TorchFix, all rules (a share)", threads, "small", *spent)

    def round(self) -> None:
        self.ours("torch", {"parse": "bare parsing", "check": "static check"})
        self.ours("other", {"check": "static check, files without torch"}, "--skip")
        for threads in THREADS:
            self.peers(threads)

    def show(self) -> None:
        for kind, (files, megabytes, kilolines) in self.sizes.items():
            print(f"{kind:6} {files:6} files {megabytes:8.2f} MB {kilolines:8.1f} kLOC")
        form = "{:36} {:>7} {:>8} {:>8} {:>8} {:>15} {:>11}"
        print(
            form.format(
                "median of the rounds",
                "threads",
                "MB/s",
                "kLOC/s",
                "CPU MB/s",
                "range MB/s",
                "x us",
            )
        )
        for threads in THREADS:
            ours = self.figures["static check", threads].speed()
            for (_, number), figure in self.figures.items():
                if number != threads:
                    continue
                slow, fast = (figure.megabytes / pick(figure.wall) for pick in (max, min))
                print(
                    form.format(
                        figure.name,
                        threads,
                        f"{figure.speed():.3f}",
                        f"{figure.kilolines / statistics.median(figure.wall):.2f}",
                        f"{figure.cpu_speed():.3f}",
                        f"{slow:.3f}-{fast:.3f}",
                        f"{figure.speed() / ours:.4f}",
                    )
                )
        for name, run in self.told.items():
            print(
                f"{name}: {run['files']} files worked on, {run['skipped']} skipped, "
                f"{run['findings']} findings"
            )


def profile(arguments: argparse.Namespace) -> None:
    done = subprocess.run(
        [arguments.bin.resolve() / "bench-static-check", arguments.work / "torch", "--profile"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stderr)
    result = json.loads(done.stdout)
    whole = result["profile"]["Check as a whole"]
    print(f"{result['bytes'] / 1e6:.2f} MB, {whole:.3f} s of processor time in Check()")
    for phase, seconds in result["profile"].items():
        print(f"{seconds:8.3f} s {100 * seconds / whole:6.1f} %  {phase}")
    print("files that take longest for their size, each checked alone:")
    for file in result["slowest"]:
        path = pathlib.Path(file["path"]).relative_to(arguments.work / "torch")
        print(f"{file['milliseconds']:9.2f} ms {file['ns_a_byte']:8.0f} ns a byte  {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpora", type=pathlib.Path, required=True, help="a folder a code base")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="files are staged here")
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--torchfix", help="the program, in an environment of its own")
    parser.add_argument("--ruff", help="the program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mb", type=float, default=24, help="bytes to stage of each kind, in MB")
    parser.add_argument("--profile", action="store_true", help="where the time goes, no peers")
    arguments = parser.parse_args()
    if not (arguments.work / "small").is_dir():
        stage(arguments.corpora, arguments.work, arguments.mb)
    if arguments.profile:
        profile(arguments)
        return
    bench = Bench(arguments)
    for number in range(arguments.rounds):
        bench.round()
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    bench.show()


if __name__ == "__main__":
    main()
