"""Runs escapes in mpnanny-sandbox, on a kernel that offers all or less, and looks from outside."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from escape import all_escapes
from machine import KINDS, Memory
from views import Held

HERE = pathlib.Path(__file__).parent
SANDBOX = HERE.parent.parent / "build" / "release" / "bin" / "mpnanny-sandbox"
ESCAPES = all_escapes()
OWNERS = {"root": 0, "nobody": 65534} if os.geteuid() == 0 else {"self": os.geteuid()}
PYTHON = ["/usr/bin/python3", "-I", "-S", "-B"]


@dataclass(frozen=True)
class Kernel:
    """What it lacks."""

    name: str
    layers: tuple[str, ...] = ()  # of without.py
    landlock: int | None = None  # the newest version that it has
    often: bool = False  # common enough to be looked at with every run of the tests


FULL = Kernel("all")
WEAKER = (
    Kernel("no Landlock", ("landlock",), often=True),
    Kernel("Landlock 1", landlock=1, often=True),
    Kernel("Landlock 2", landlock=2),
    Kernel("Landlock 3", landlock=3),
    Kernel("no namespaces", ("namespaces",), often=True),
    Kernel("no mounts", ("mounts",)),
    Kernel("no seccomp", ("seccomp",)),
    Kernel("neither Landlock nor namespaces", ("landlock", "namespaces")),
    Kernel("Landlock 1 and no namespaces", ("namespaces",), landlock=1),
    Kernel("nothing", ("landlock", "namespaces", "seccomp")),
)


@dataclass
class Outcome:
    end: dict[str, Any] = field(default_factory=dict)
    harms: dict[str, str] = field(default_factory=dict)
    ran: bool = False
    said: dict[str, str] = field(default_factory=dict)  # by the escapes; decides nothing
    printed: str = ""

    @property
    def missing(self) -> set[str]:
        return set(self.end.get("missing", []))

    def told(self, names: list[str] | None = None) -> str:
        """For the message of a test that fails."""
        lines = [
            f"{each}: {ESCAPES[each].harm}: {how} (it says: {self.said.get(each)})"
            for each, how in self.harms.items()
            if names is None or each in names
        ]
        return "\n".join([*lines, json.dumps(self.end), self.printed[-2000:]])


class Place:
    """A folder that everybody may read, with copies of what runs."""

    def __init__(self) -> None:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="mpnanny-escapes-"))
        self.path.chmod(0o755)
        self.code = self.path / "code"
        shutil.copytree(HERE, self.code, ignore=shutil.ignore_patterns("*.pyc", "__pycache__"))
        self.sandbox = self.path / "mpnanny-sandbox"
        shutil.copy(SANDBOX, self.sandbox)
        self.runs = 0
        self.preload = self.path / "abi.so"
        if compiler := shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"):
            words = [compiler, "-shared", "-fPIC", "-o", self.preload, HERE / "abi.c", "-ldl"]
            subprocess.run(words, check=True)

    def remove(self) -> None:
        shutil.rmtree(self.path)

    def command(
        self, kernel: Kernel | None, writable: pathlib.Path, options: list[str]
    ) -> list[str]:
        program = [*PYTHON, str(self.code / "inside.py"), str(writable)]
        if kernel is None:
            return program
        confined = [str(self.sandbox), *options, "--writable", str(writable), "--"]
        if kernel.landlock:
            pre = [f"MPNANNY_TEST_LANDLOCK={kernel.landlock}", f"LD_PRELOAD={self.preload}"]
            confined = ["env", *pre, *confined]
        if kernel.layers:
            confined = [*PYTHON, str(self.code / "without.py"), *kernel.layers, "--", *confined]
        return [*confined, *program]

    def attempt(
        self,
        names: list[str],
        kernel: Kernel | None,
        owner: str,
        *,
        allow: bool = False,
        gpu: bool = False,
    ) -> Outcome:
        """`kernel`: None for no sandbox at all."""
        if kernel and kernel.landlock and not self.preload.exists():
            pytest.skip("there is no C compiler for Landlock of another version")
        self.runs += 1
        here = self.path / f"run{self.runs}"
        writable = here / "writable"
        writable.mkdir(parents=True)
        os.chown(writable, OWNERS[owner], OWNERS[owner])
        victims = {}
        try:
            for name in names:
                kind = KINDS[ESCAPES[name].victim]
                victims[name] = kind(here / name, OWNERS[owner], writable)
            for each in victims.values():
                each.settle()
            leave = ["--allow-weaker"] * allow + ["--allow-gpu"] * gpu
            return self._watch(victims, self._start(victims, kernel, owner, writable, leave), here)
        finally:
            for each in victims.values():
                each.close()
            shutil.rmtree(here)

    def _start(self, victims, kernel, owner, writable, leave) -> subprocess.Popen:
        tokens = [v.variable for v in victims.values() if getattr(v, "variable", None)]
        memory = 200 if any(ESCAPES[each].victim == "memory" for each in victims) else 2000
        options = ["--seconds", "40", "--memory-mb", str(memory)]
        options += ["--processes", "150", "--file-mb", "64"]
        with (writable.parent / "out").open("w") as out, (writable.parent / "err").open("w") as err:
            process = subprocess.Popen(
                self.command(kernel, writable, [*leave, *options]),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                text=True,
                env={"PATH": os.environ["PATH"], "HOME": "/", **dict(tokens)},
                pass_fds=[each for v in victims.values() for each in v.inherited],
                user=OWNERS[owner],
                group=OWNERS[owner],
                extra_groups=[] if os.geteuid() == 0 else None,
                cwd="/",
            )
        given = {
            name: {**v.facts, "inherited": v.inherited, "starter": os.getpid()}
            for name, v in victims.items()
        }
        try:
            process.stdin.write(json.dumps(given))
            process.stdin.close()
        except BrokenPipeError:
            pass  # it was refused and nobody reads
        return process

    def _watch(self, victims, process: subprocess.Popen, here: pathlib.Path) -> Outcome:
        writable = here / "writable"
        until = time.monotonic() + 60
        looked = False
        while process.poll() is None and time.monotonic() < until:
            for each in victims.values():
                if isinstance(each, Memory):
                    each.look(sorted({*below(process.pid), *named(str(writable))}))
            if not looked and (writable / "ready").exists():
                looked = True
                self._look_at_held(victims, str(writable))
                (writable / "seen").write_text("")
            time.sleep(0.005)
        late = process.poll() is None
        if late:
            process.kill()
        process.wait()
        if not late:  # without a sandbox some stay a moment
            wait_until = time.monotonic() + 3
            while named(str(writable)) and time.monotonic() < wait_until:
                time.sleep(0.02)
        lines = (here / "out").read_text().strip().splitlines()
        outcome = Outcome(printed=(here / "err").read_text())
        if lines and lines[-1].startswith("{"):
            outcome.end = json.loads(lines[-1]).get("end", {})
        if late:
            outcome.end = {"error": "the sandbox did not end"}
        outcome.ran = (writable / "said").exists()
        for each in writable.glob("said/*"):
            outcome.said[each.name] = each.read_text()
        outcome.harms = {name: how for name, v in victims.items() if (how := v.harm())}
        return outcome

    @staticmethod
    def _look_at_held(victims, writable: str) -> None:
        processes = named(writable)
        main = [each for each, name in processes.items() if not name.startswith("escape")]
        at = {f"escape{number}": v for number, v in enumerate(victims.values())}
        for number, name in processes.items():
            victim = at.get(name)
            if isinstance(victim, Held) and not victim.found:
                victim.look(number, main[-1])


def named(writable: str) -> dict[int, str]:
    """The short names of the hostile program's processes, which has this folder."""
    found = {}
    for each in pathlib.Path("/proc").iterdir():
        try:
            if not each.name.isdigit() or "python" not in os.readlink(each / "exe"):
                continue
            words = (each / "cmdline").read_text().split("\0")
            if words[-2:] == [writable, ""] and words[-3].endswith("inside.py"):
                found[int(each.name)] = (each / "comm").read_text().strip()
        except (OSError, IndexError):
            continue
    return found


def below(top: int) -> list[int]:
    """The processes that descend from `top`, itself included."""
    parents = {}
    for each in pathlib.Path("/proc").iterdir():
        try:
            if each.name.isdigit():
                text = (each / "stat").read_text()
                parents[int(each.name)] = int(text.rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {top}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)
