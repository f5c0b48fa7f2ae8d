"""The check of scripts/gpu that CUDA starts in mpnanny-sandbox; where it does not, which part of
the sandbox is in the way: each is left out alone.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import mpnanny
from setup import FAIL, PASS, SKIPPED, Row, Rows, Setup, verdict

# build/release/python/mpnanny is beside build/release/bin.
BIN = pathlib.Path(mpnanny.__file__).resolve().parents[2] / "bin"
# Of base/confinement.h, the likeliest first.
FENCES = ("system_calls", "processes", "writing", "devices", "read_only", "namespaces")
FENCES += ("resources", "capabilities")
MEMORY_MB = 4096
START = """
import os, torch
x = torch.zeros(1, device={device!r})
os.write({descriptor}, b"started %d\\n" % int((x + 1).item()))
"""
# Twice what it may have, and no more: where nobody ends it, the machine bears that.
HOG = """
import sys, torch
held = [torch.ones(16 << 20, dtype=torch.uint8{pinned}) for _ in range({pieces})]
sys.exit("it had all that it wanted")
"""


@dataclass(frozen=True)
class End:
    """How a confined program ended. `said`: the last line on its standard error."""

    started: bool
    refused: bool
    exceeded: str
    missing: list[str]
    said: str


def _confined(code: str, *flags: str, before: Sequence[str] = ()) -> End:
    """`before`: words of a program that runs the sandbox."""
    with tempfile.TemporaryDirectory() as folder:
        limits = ["--seconds", "60", "--memory-mb", str(MEMORY_MB), "--processes", "64"]
        command = [str(BIN / "mpnanny-sandbox"), *flags, *limits, "--file-mb", "256"]
        done = subprocess.run(
            [*before, *command, "--writable", folder, "--", sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    lines = done.stdout.splitlines()
    end = json.loads(lines[-1])["end"] if lines and lines[-1].startswith("{") else {}
    errors = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return End(
        any(line == " started 1" for line in lines),
        bool(end.get("refused")),
        str(end.get("exceeded", "")),
        [str(each) for each in end.get("missing", [])],
        str(end.get("error") or (errors[-1] if errors else "it says nothing"))[:200],
    )


def sandbox(setup: Setup) -> Rows:
    flags = ["--allow-gpu"]
    whole = _confined(_start(setup, 3), *flags)
    if whole.refused:  # as in most containers
        flags = ["--allow-weaker", *flags]
        whole = _confined(_start(setup, 3), *flags)
    lacks = f"; the machine lacks: {', '.join(whole.missing)}" if whole.missing else ""
    call = f"torch.zeros(1, device={setup.device!r})"
    told = f"{call} ran" if whole.started else f"{call} failed: {whole.said}"
    yield Row("a program in the sandbox", verdict(whole.started), told + lacks, told)
    if setup.small or not whole.started:
        yield _in_the_way(setup, whole)
        yield _refused_calls(setup, flags)
    if whole.started:
        pinned = "" if setup.small else ", pin_memory=True"
        hog = HOG.format(pinned=pinned, pieces=2 * MEMORY_MB // 16)
        end = _confined(hog, *flags)
        told = f"ended for its {end.exceeded}" if end.exceeded else f"ended otherwise: {end.said}"
        yield Row("one that takes too much memory", verdict(end.exceeded == "memory"), told, told)
        yield _diff(setup, flags)


def _start(setup: Setup, descriptor: int) -> str:
    return START.format(device=setup.device, descriptor=descriptor)


def _in_the_way(setup: Setup, whole: End) -> Row:
    """Each part left out alone; "processes" alone cannot help where "namespaces" lack."""
    what = "which part is in the way"
    command = [sys.executable, "-c", _start(setup, 1)]
    outside = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    if "started 1" not in outside.stdout:
        last = (outside.stderr.strip().splitlines() or ["it says nothing"])[-1]
        return Row(what, SKIPPED, f"it fails outside of the sandbox, too: {last[:200]}")
    starts, fails = [], []
    for each in FENCES:
        end = _confined(_start(setup, 3), "--allow-weaker", "--allow-gpu", "--without", each)
        (starts if end.started else fails).append(each)
    if whole.started:
        told = "none: it starts with all of them, and "
        told += f"fails without {', '.join(fails)}" if fails else "without each of them"
        return Row(what, verdict(not fails), told)
    if starts:
        return Row(what, FAIL, f"it starts without {', '.join(starts)}")
    return Row(what, FAIL, f"more than one of {', '.join(fails)}: it starts without none alone")


def _refused_calls(setup: Setup, flags: list[str]) -> Row:
    """What the kernel refused to the program, as strace tells it: the last is often what it could
    not bear.
    """
    what = "calls that were refused"
    strace = shutil.which("strace")
    if strace is None:
        return Row(what, SKIPPED, "there is no strace")
    with tempfile.NamedTemporaryFile("r") as told:
        words = [strace, "-f", "-qq", "-s", "80", "-e", "status=failed", "-o", told.name]
        _confined(_start(setup, 3), *flags, before=words)
        refused: dict[str, None] = {}
        for line in told:
            found = re.match(
                r"\d+ +(\w+)\((.*)\) += -1 (EACCES|EPERM|EROFS|ENOSYS|ECONNREFUSED)", line
            )
            if found:
                call, arguments, error = found.groups()
                path = re.search(r'"[^"]*"', arguments)
                shown = f"{call}({path.group() if path else ''}) {error}"
                refused.pop(shown, None)
                refused[shown] = None
    last = list(refused)[-12:]
    return Row(what, PASS, f"{len(refused)}; the last: {', '.join(last)}" if last else "none")


def _diff(setup: Setup, flags: list[str]) -> Row:
    """The whole way: `mpnanny diff` on the device."""
    code = "import torch\ndef f(x):\n    return (x * x).sum()\n"
    words = {"--allow-gpu": "--allow-gpu", "--allow-weaker": "--allow-weaker-sandbox"}
    device = ["--device", setup.device, *(words[each] for each in flags)]
    done = subprocess.run(
        [str(BIN / "mpnanny"), "diff", "--code", code, "--input", "float32[64]~constant(400)"]
        + ["--dtype", "fp16", "--policy", "pure", "--python", sys.executable, "--format", "json"]
        + device,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode not in (0, 1):
        said = (done.stderr.strip().splitlines() or ["it says nothing"])[0]
        return Row("mpnanny diff --device", FAIL, said[:300])
    answer = json.loads(done.stdout)
    first = answer.get("first_bad") or {}
    told = f"{answer.get('verdict')}: {first.get('op', 'no operator')}"
    return Row("mpnanny diff --device", verdict(answer.get("verdict") == "broken"), told)
