"""Runs the checks of scripts/gpu one after the other, prints each row at once, writes the page."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import torch
from checks import CHECKS
from setup import FAIL, PASS, SKIPPED, Row

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "bench" / "evaluations" / "gpu" / "README.md"
SECONDS = 580.0  # the whole command, with the build
# Seconds that a check may take; what one leaves over the others do not get.
BUDGETS = {
    "kernels": 60.0,
    "bits": 170.0,
    "alerts": 40.0,
    "syncs": 60.0,
    "shadow": 90.0,
    "overhead": 120.0,
    "compile": 110.0,
    "memory": 120.0,
    "diff": 140.0,
    "precision": 120.0,
    "guard": 90.0,
}


@dataclass
class CheckRows:
    """What one check said."""

    name: str
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, row: Row) -> None:
        self.rows.append(row)
        print(f"  {row.result:7}  {row.what}: {row.figures}", flush=True)


def run(name: str, device: str, seconds: float) -> CheckRows:
    """In a process of its own: what breaks there, even the device, breaks nothing here."""
    told = CheckRows(name)
    print(f"{name}: {CHECKS[name][1]}", flush=True)
    if seconds < 5:
        told.add(Row("the check", SKIPPED, "no time was left"))
        return told
    began = time.monotonic()
    environment = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", PYTHONWARNINGS="ignore")
    if device == "cpu":
        environment["OMP_NUM_THREADS"] = "1"
    command = [sys.executable, str(ROOT / "bench" / "gpu" / "checks.py"), name, device]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        lines: queue.Queue[str | None] = queue.Queue()
        errors: list[str] = []

        def read() -> None:
            assert child.stdout is not None
            for line in child.stdout:
                lines.put(line)
            lines.put(None)

        def drain() -> None:
            assert child.stderr is not None
            errors.extend(child.stderr)

        readers = [threading.Thread(target=each, daemon=True) for each in (read, drain)]
        for reader in readers:
            reader.start()
        while True:
            left = seconds - (time.monotonic() - began)
            try:
                line = lines.get(timeout=max(0.01, left))
            except queue.Empty:
                child.kill()
                told.add(Row("the rest", FAIL, f"not done after {seconds:.0f} s"))
                break
            if line is None:
                break
            try:
                told.add(Row(**json.loads(line)))
            except (ValueError, TypeError):
                print(f"  {line.rstrip()}", flush=True)
        code = child.wait()
        readers[1].join(timeout=5)
    if code > 0 or (code < 0 and not (told.rows and told.rows[-1].what == "the rest")):
        said = [line.strip() for line in errors if line.strip()]
        last = said[-1] if said else f"ended with {code}"
        told.add(Row("the rest", FAIL, f"{last[:300]}"))
        print("".join(errors[-12:]), file=sys.stderr)
    told.seconds = time.monotonic() - began
    return told


def machine(device: str) -> list[str]:
    """Name and value, a line each."""

    def said(*command: str) -> str:
        try:
            return subprocess.check_output(command, text=True, cwd=ROOT, stderr=-3).strip()
        except (OSError, subprocess.CalledProcessError):
            return ""

    processor = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="ascii") as lines:
            found = (line for line in lines if line.startswith("model name"))
            processor = next(found).partition(":")[2].strip()
    except (OSError, StopIteration):
        pass
    changed = ", with changes" if said("git", "status", "--porcelain", "-uno") else ""
    told = [
        f"date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
        f"commit: {said('git', 'rev-parse', '--short', 'HEAD') or 'unknown'}{changed}",
        f"processor: {processor}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        f"Python {platform.python_version()}, torch {torch.__version__}",
    ]
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        driver = said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        told.insert(
            2,
            f"device: {properties.name}, {properties.total_memory / 2**30:.0f} GB,"
            f" capability {properties.major}.{properties.minor}, CUDA {torch.version.cuda},"
            f" driver {driver.partition(chr(10))[0] or 'unknown'}",
        )
    else:
        told.insert(2, "device: none; the CPU at a small size, which says nothing of a GPU")
    return told


def page(device: str, every: list[CheckRows], seconds: float) -> str:
    lines = ["# Figures from a GPU", ""]
    lines += ["Written by `./scripts/gpu`, which runs every check that needs CUDA.", ""]
    lines += [f"- {each}" for each in machine(device)]
    lines += [f"- {seconds:.0f} s in all", ""]
    counts = {
        result: sum(row.result == result for t in every for row in t.rows)
        for result in (PASS, FAIL, SKIPPED)
    }
    lines += [", ".join(f"{count} {result}" for result, count in counts.items()) + ".", ""]
    for told in every:
        lines += [f"## {CHECKS[told.name][1]}", "", f"`{told.name}`, {told.seconds:.0f} s", ""]
        lines += ["| what | result | figures |", "|---|---|---|"]
        for row in told.rows:
            cells = (row.what, row.result, row.figures)
            lines.append(
                "| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |"
            )
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu", description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="on the CPU at a small size")
    parser.add_argument("-o", "--output", type=pathlib.Path, help=f"the page ({PAGE})")
    parser.add_argument("--only", help="some of the checks, with commas between")
    parser.add_argument("--spent", type=float, default=0.0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(CHECKS)
    for name in chosen:
        if name not in CHECKS:
            parser.error(f"{name!r} is not one of {', '.join(CHECKS)}")

    device = "cpu" if options.cpu else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        print("gpu: torch finds no CUDA device", file=sys.stderr)
        return 2
    began = time.monotonic() - options.spent
    every = []
    for name in chosen:
        left = SECONDS - (time.monotonic() - began)
        every.append(run(name, device, min(BUDGETS[name], left)))
    target = options.output or (None if options.cpu or options.only else PAGE)
    text = page(device, every, time.monotonic() - began)
    if target is not None:
        target.write_text(text, encoding="utf-8")
        print(f"written: {target}")
    failed = sum(row.result == FAIL for told in every for row in told.rows)
    passed = sum(row.result == PASS for told in every for row in told.rows)
    print(f"{passed} passed, {failed} failed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
