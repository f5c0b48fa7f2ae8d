"""Mutants of a C++ file against one test program of a build folder, which itself is not touched.

The file is compiled alone, by the command that compile_commands.json has for it, and linked before
the libraries. Where the build compiles it together with others of its folder, those are compiled
once without it. The library is linked as a copy without its own object of the file.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import time
from pathlib import Path

from mutation.mutant import Mutant
from mutation.outcome import HUNG, KILLED, REFUSED, SAME, SURVIVED, Failure, Outcome
from mutation.processes import Ended, Processes

COMPILING = 600.0  # seconds


class CppTests:
    def __init__(
        self,
        path: Path,
        program: str,
        chosen: str,
        build: Path,
        ninja: str,
        work: Path,
        processes: Processes,
    ) -> None:
        """`chosen`: of the program's tests, as gtest takes it."""
        self.path = path
        self.text = path.read_text()
        self.program = program
        self.filter = chosen
        self.build = build
        self.ninja = ninja
        self.work = work
        self.processes = processes
        self.objects: list[Path] = []  # what stands beside the mutant's own
        self.plain = b""
        self.limit = 0.0
        self.killers: list[str] = []

    def prepare(self) -> None:
        built = self._run([self.ninja, "-C", str(self.build), f"bin/{self.program}"], 3600)
        if built.code != 0:
            raise Failure(f"{self.program} does not build:\n{built.output[-2000:]}")
        self._read_commands()
        object_ = self._compile(self.text, "plain")
        if isinstance(object_, Ended):
            raise Failure(f"{self.path} does not compile alone:\n{object_.output[-2000:]}")
        self.plain = object_.read_bytes()
        linked = self._link(object_, "plain")
        if isinstance(linked, Ended):
            raise Failure(f"{self.program} does not link:\n{linked.output[-2000:]}")
        start = time.monotonic()
        ended = self._test(linked, 3600)
        if ended.code != 0:
            told = re.search(r"^.*: Failure$.*?^\[  FAILED  \].*?$", ended.output, re.M | re.S)
            why = told.group() if told else ended.output[-2000:]
            raise Failure(f"{self.program} fails without a change:\n{why}")
        self.limit = 20 + 5 * (time.monotonic() - start)

    def try_(self, mutant: Mutant, worker: str) -> Outcome:
        object_ = self._compile(mutant.apply(self.text), worker)
        if isinstance(object_, Ended):
            return Outcome(REFUSED)
        if object_.read_bytes() == self.plain:
            return Outcome(SAME)
        program = self._link(object_, worker)
        if isinstance(program, Ended):
            return Outcome(REFUSED)
        # What killed others is asked first.
        if self.killers:
            ended = self._test(program, self.limit, ":".join(self.killers))
            if ended.code != 0:
                return self._killed(ended)
        ended = self._test(program, self.limit)
        return Outcome(SURVIVED) if ended.code == 0 else self._killed(ended)

    def _killed(self, ended: Ended) -> Outcome:
        if ended.code is None:
            return Outcome(HUNG)
        failed = re.findall(r"^\[  FAILED  \] (\w[\w/]*\.[\w/]+)", ended.output, re.M)
        if failed and failed[0] not in self.killers:
            self.killers.insert(0, failed[0])
        return Outcome(KILLED, failed[0] if failed else f"exit code {ended.code}")

    def _run(self, command: list[str], seconds: float) -> Ended:
        return self.processes.run(command, self.build, seconds)

    def _test(self, program: Path, seconds: float, tests: str = "") -> Ended:
        left = program.parent / "left"
        shutil.rmtree(left, ignore_errors=True)
        left.mkdir()
        command = [str(program), "--gtest_fail_fast", "--gtest_brief=1"]
        command += [f"--gtest_filter={tests or self.filter}"]
        return self.processes.run(command, self.build, seconds, {"TMPDIR": str(left)})

    # --- commands ---
    def _read_commands(self) -> None:
        entries = json.loads((self.build / "compile_commands.json").read_text())
        include = f'#include "{self.path}"'
        alone = [e for e in entries if Path(e["file"]) == self.path]
        group = [
            e
            for e in entries
            if "/Unity/" in e["file"] and include in Path(e["file"]).read_text().splitlines()
        ]
        if not alone and not group:
            raise Failure(f"{self.build} does not compile {self.path}")
        entry = (alone or group)[0]
        self.compiler = shlex.split(entry["command"])
        self.source = entry["file"]
        output = self.compiler[self.compiler.index("-o") + 1]
        commands = self._run([self.ninja, "-t", "commands", f"bin/{self.program}"], 60).output
        link = next(p for p in commands.splitlines()[-1].split(" && ") if " -o bin/" in p)
        words = [word for word in shlex.split(link) if word != output]
        self.linker = [self._without(Path(output).name, word) for word in words]
        if not alone:
            rest = Path(self.source).read_text().replace(include, "")
            object_ = self._compile(rest, "rest", "rest.cc")
            if isinstance(object_, Ended):
                raise Failure(f"its neighbours do not compile:\n{object_.output[-2000:]}")
            self.objects = [object_]

    def _without(self, object_: str, word: str) -> str:
        """A library that holds the object: a copy without it. The linker would ask it for what it
        has of templates, and get the unchanged functions as well."""
        library = self.build / word
        if not word.endswith(".a") or not library.exists():
            return word
        held = self._run(["ar", "t", str(library)], 60).output.split()
        if held.count(object_) != 1:
            return word
        copy = self.work / library.name
        shutil.copy(library, copy)
        self._run(["ar", "d", str(copy), object_], 60)
        return str(copy)

    def _compile(self, text: str, worker: str, name: str = "") -> Path | Ended:
        """The object, or how the compiler ended."""
        folder = self.work / worker
        folder.mkdir(exist_ok=True)
        source = folder / (name or self.path.name)
        source.write_text(text)
        object_ = source.with_suffix(".o")
        object_.unlink(missing_ok=True)
        command = list(self.compiler)
        command[command.index("-o") + 1] = str(object_)
        command[command.index(self.source)] = str(source)
        command += ["-iquote", str(self.path.parent), "-w"]
        ended = self._run(command, COMPILING)
        return object_ if ended.code == 0 else ended

    def _link(self, object_: Path, worker: str) -> Path | Ended:
        program = self.work / worker / self.program
        program.unlink(missing_ok=True)
        command = list(self.linker)
        at = command.index("-o")
        command[at : at + 2] = [str(object_), *map(str, self.objects), "-o", str(program)]
        ended = self._run(command, COMPILING)
        return program if ended.code == 0 else ended
