"""Runs the checks of scripts/gpu one after the other, prints each row at once, and writes the page
after each.
"""

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
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from checks import CHECKS
from setup import FAIL, PASS, SKIPPED, Row

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "gpu.md"
KEPT = ROOT / "bench" / "evaluations" / "gpu" / "rows.json"  # of each check, as it ran last
WRITTEN = "<!-- What follows is written by hand, and scripts/gpu keeps it. -->"
SECONDS = 1790.0  # the whole command, with the build
NO_TIME, REST = "the check", "the rest"  # rows of a check that had none, or too little


@dataclass
class CheckRows:
    """What one check said."""

    name: str
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, row: Row) -> None:
        self.rows.append(row)
        print(f"  {row.result:7}  {row.what}: {row.figures}", flush=True)

    def has_measured(self) -> bool:
        return any(row.what not in (NO_TIME, REST) for row in self.rows)


def run(name: str, device: str, seconds: float) -> CheckRows:
    """In a process of its own: what breaks there, even the device, breaks nothing here."""
    told = CheckRows(name)
    print(f"{name}: {CHECKS[name].title}", flush=True)
    if seconds < 5:
        told.add(Row(NO_TIME, SKIPPED, "no time was left"))
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
                told.add(Row(REST, FAIL, f"not done after {seconds:.0f} s"))
                break
            if line is None:
                break
            try:
                told.add(Row(**json.loads(line)))
            except (ValueError, TypeError):
                print(f"  {line.rstrip()}", flush=True)
        code = child.wait()
        readers[1].join(timeout=5)
    if code > 0 or (code < 0 and not (told.rows and told.rows[-1].what == REST)):
        said = [line.strip() for line in errors if line.strip()]
        last = said[-1] if said else f"ended with {code}"
        told.add(Row(REST, FAIL, f"{last[:300]}"))
        print("".join(errors[-12:]), file=sys.stderr)
    told.seconds = time.monotonic() - began
    return told


def said(*command: str) -> str:
    try:
        return subprocess.check_output(command, text=True, cwd=ROOT, stderr=-3).strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def commit() -> str:
    changed = ", with changes" if said("git", "status", "--porcelain", "-uno") else ""
    return f"{said('git', 'rev-parse', '--short=8', 'HEAD') or 'unknown'}{changed}"


def machine(device: str) -> str:
    """In words."""
    processor = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="ascii") as lines:
            found = (line for line in lines if line.startswith("model name"))
            processor = next(found).partition(":")[2].strip()
    except (OSError, StopIteration):
        pass
    told = [
        f"{processor}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        f"Python {platform.python_version()}, torch {torch.__version__}",
    ]
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        driver = said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        told.insert(
            0,
            f"{properties.name}, {properties.total_memory / 2**30:.0f} GB,"
            f" capability {properties.major}.{properties.minor}, CUDA {torch.version.cuda},"
            f" driver {driver.partition(chr(10))[0] or 'unknown'}",
        )
    else:
        told.insert(0, "no device: the CPU at a small size, which says nothing of a GPU")
    return "; ".join(told)


def kept() -> dict[str, dict[str, Any]]:
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}


def record(told: CheckRows, device: str) -> dict[str, Any]:
    """What a check said, and of which program on which machine."""
    return {
        "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}",
        "commit": commit(),
        "machine": machine(device),
        "seconds": round(told.seconds),
        "rows": [asdict(row) for row in told.rows],
    }


def page(records: dict[str, dict[str, Any]]) -> str:
    lines = ["# What a GPU showed", ""]
    lines += [
        "Written by `./scripts/gpu`, which runs every check that needs CUDA in at most 30 minutes;"
        " `--only` runs some and leaves the others' figures as they are. Each section says at which"
        " commit its figures were measured: those of an older one say nothing of what was changed"
        " since.",
        "",
        "| goal | result | figures | measured |",
        "|---|---|---|---|",
    ]
    for name, check in CHECKS.items():
        if check.goal:
            lines.append(_cells(check.goal, *_summary(name, records)))
    missing = [name for name in CHECKS if name not in records]
    if missing:
        words = ", ".join(f"`{each}`" for each in missing)
        lines += ["", f"**Never measured on a device:** {words}."]
    for name, check in CHECKS.items():
        lines += ["", f"## {check.title}", ""]
        if name not in records:
            lines.append(f"`{name}`: never measured on a device.")
            continue
        its = records[name]
        lines += [
            f"`{name}`, {its['seconds']} s, {its['date']}, commit {its['commit']}{_age(its)}.",
            f"{its['machine']}.",
            "",
            "| what | result | figures |",
            "|---|---|---|",
        ]
        lines += [_cells(row["what"], row["result"], row["figures"]) for row in its["rows"]]
    return "\n".join(lines) + "\n"


def _age(its: dict[str, Any]) -> str:
    return "" if its["commit"].startswith(commit()[:8]) else " (**older** than this page's program)"


def _summary(name: str, records: dict[str, dict[str, Any]]) -> tuple[str, str, str]:
    if name not in records:
        return "not known", "", "**never**"
    its = records[name]
    results = [row["result"] for row in its["rows"] if row["what"] != REST]
    result = next((each for each in (FAIL, PASS) if each in results), SKIPPED)
    result += "" if len(results) == len(its["rows"]) else ", not all of it ran"
    figures = [f"{row['what']}: {row['short']}" for row in its["rows"] if row.get("short")]
    if not figures:
        figures = [f"{count} {each}" for each in (PASS, FAIL) if (count := results.count(each))]
    return result, "; ".join(figures), f"{its['date']}, {its['commit']}{_age(its)}"


def _cells(*cells: str) -> str:
    return "| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |"


def with_written(text: str, target: pathlib.Path) -> str:
    """`text`, and below it what people have written on the page that is there."""
    old = target.read_text(encoding="utf-8") if target.exists() else ""
    _, mark, written = old.partition(WRITTEN)
    return f"{text}\n{WRITTEN}{written}" if mark else text


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu", description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="on the CPU at a small size")
    parser.add_argument("-o", "--output", type=pathlib.Path, help=f"the page ({PAGE})")
    parser.add_argument("--only", help="some of the checks, with commas between")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of the whole command")
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
    records = {} if options.cpu else kept()
    target = options.output or (None if options.cpu else PAGE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MPNANNY_GPU_SIZES"] = f"{folder}/sizes.json"
        for name in chosen:
            left = options.seconds - (time.monotonic() - began)
            limit = CHECKS[name].seconds
            told = run(name, device, 3 * limit if options.cpu else min(limit, left))
            every.append(told)
            if not told.has_measured():
                continue  # what it said before stays
            records[name] = record(told, device)
            # After each: the whole may be ended before its end.
            if not options.cpu:
                KEPT.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
            if target is not None:
                target.write_text(with_written(page(records), target), encoding="utf-8")
    if target is not None:
        print(f"written: {target}")
    failed = sum(row.result == FAIL for told in every for row in told.rows)
    passed = sum(row.result == PASS for told in every for row in told.rows)
    print(f"{passed} passed, {failed} failed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
