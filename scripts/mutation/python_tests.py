"""Mutants of a Python file against the tests of a pytest folder, on a copy of its package.

The tests run once traced, which tells those that reach each line of the file. A mutant is shown to
those that reach its statement, what killed others first and then the quickest; where no test
reaches it, it survives at once. Code that only other processes run is reached by no test.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from mutation.mutant import Mutant
from mutation.outcome import HUNG, KILLED, REFUSED, SAME, SURVIVED, Failure, Outcome
from mutation.processes import Ended, Processes

SCRIPTS = Path(__file__).resolve().parents[1]
TRACING = 3600.0  # seconds


def import_root(path: Path) -> Path:
    """The folder that must be in sys.path for the file to be imported by its whole name."""
    folder = path.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


class PythonTests:
    def __init__(
        self,
        path: Path,
        tests: Path,
        built: Path | None,
        work: Path,
        remembered: Path,
        processes: Processes,
    ) -> None:
        """`built`: the package as the build left it, with what is not Python's."""
        self.path = path
        self.text = path.read_text()
        self.tree = ast.parse(self.text)
        self.tests = tests
        self.built = built
        self.work = work
        self.remembered = remembered
        self.processes = processes
        self.reach: dict[str, dict[str, Any]] = {}
        self.around = 0.0  # seconds that pytest takes beside its tests
        self.killers: list[str] = []

    def prepare(self) -> None:
        package = self._copy("plain")
        self.remembered.mkdir(exist_ok=True)
        kept = self.remembered / f"{self._digest(package)}.json"
        if not kept.exists():
            out = self.work / "reach.json"
            environment = {"MUTATE_FILE": str(self._copied(package)), "MUTATE_REACH": str(out)}
            start = time.monotonic()
            ended = self._pytest("plain", [self.tests], TRACING, environment)
            if not out.exists():
                raise Failure(f"the tests of {self.tests} do not run:\n{ended.output[-2000:]}")
            tests = json.loads(out.read_text())
            in_tests = sum(test.get("seconds", 0) for test in tests.values())
            around = time.monotonic() - start - in_tests
            kept.write_text(json.dumps({"tests": tests, "around": around}))
        known = json.loads(kept.read_text())
        found, self.around = known["tests"], known["around"]
        failing = [name for name, test in found.items() if not test["passed"]]
        if failing:
            print(f"mutate: {len(failing)} tests fail when traced or are skipped", file=sys.stderr)
        self.reach = {n: t for n, t in found.items() if t["passed"] and t["lines"]}
        if not self.reach:
            raise Failure(f"no test in {self.tests} runs {self.path}")

    def try_(self, mutant: Mutant, worker: str) -> Outcome:
        text = mutant.apply(self.text)
        try:
            if ast.dump(ast.parse(text)) == ast.dump(self.tree):
                return Outcome(SAME)
            compile(text, str(self.path), "exec", dont_inherit=True)
        except SyntaxError:
            return Outcome(REFUSED)
        tests = self._reaching(mutant)
        if not tests:
            return Outcome(SURVIVED, "no test reaches it")
        package = self._copy(worker)
        self._copied(package).write_text(text)
        order = self.work / worker / "order.json"
        order.write_text(json.dumps(tests))
        files = list(dict.fromkeys(Path(self.reach[test]["path"]) for test in tests))
        limit = 5 + 5 * (self.around + sum(self.reach[test]["seconds"] for test in tests))
        ended = self._pytest(worker, files, limit, {"MUTATE_ORDER": str(order)})
        if ended.code is None:
            return Outcome(HUNG)
        if ended.code == 0:
            return Outcome(SURVIVED)
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", ended.output, re.M)
        if failed and failed[0] in self.reach and failed[0] not in self.killers:
            self.killers.insert(0, failed[0])
        return Outcome(KILLED, failed[0] if failed else f"exit code {ended.code}")

    def _reaching(self, mutant: Mutant) -> list[str]:
        lines = self._statement(mutant.line(self.text))
        tests = [n for n, t in self.reach.items() if not lines or not lines.isdisjoint(t["lines"])]
        by = {name: i for i, name in enumerate(self.killers)}
        named = f"{self.path.stem}_test.py"
        return sorted(
            tests,
            key=lambda n: (
                by.get(n, len(by)),
                Path(self.reach[n]["path"]).name != named,
                self.reach[n]["seconds"],
            ),
        )

    def _statement(self, line: int) -> set[int]:
        """The lines of the innermost statement; none where it runs when the module is imported."""
        innermost: ast.stmt | None = None
        in_function = False
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or 0):
                continue
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                in_function = in_function or line >= node.body[0].lineno
            if innermost is None or node.lineno >= innermost.lineno:
                innermost = node
        if not in_function or innermost is None:
            return set()
        body = getattr(innermost, "body", None)
        last = body[0].lineno - 1 if body else innermost.end_lineno
        return set(range(innermost.lineno, max(last or 0, innermost.lineno) + 1))

    # --- the copy of the package ---
    def _copy(self, worker: str) -> Path:
        package = self.work / worker / "python"
        shutil.rmtree(package, ignore_errors=True)
        root = import_root(self.path)
        skip = shutil.ignore_patterns("__pycache__")
        if self.built is not None:
            shutil.copytree(self.built, package, ignore=skip)
        if root == self.path.parent:  # a module by itself
            package.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.path, package)
        else:
            top = self.path.relative_to(root).parts[0]
            shutil.copytree(root / top, package / top, ignore=skip, dirs_exist_ok=True)
        return package

    def _copied(self, package: Path) -> Path:
        return package / self.path.relative_to(import_root(self.path))

    def _digest(self, package: Path) -> str:
        """Of the package and its tests: what is known of them holds as long as this is the same."""
        digest = hashlib.sha256(str([self.path, self.tests]).encode())
        folder = self.tests if self.tests.is_dir() else self.tests.parent
        for file in sorted([*package.rglob("*.py"), *folder.rglob("*.py")]):
            digest.update(file.read_bytes())
        return digest.hexdigest()[:20]

    def _pytest(
        self, worker: str, paths: list[Path], seconds: float, environment: dict[str, str]
    ) -> Ended:
        left = self.work / worker / "left"
        shutil.rmtree(left, ignore_errors=True)
        left.mkdir()
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--tb=no",
            "-rfE",
        ]
        command += ["-p", "mutation.pytest_reach", f"--rootdir={self.tests.parent}"]
        command += ["-x"] if "MUTATE_ORDER" in environment else []
        places = f"{self.work / worker / 'python'}:{SCRIPTS}"
        environment |= {"PYTHONPATH": places, "TMPDIR": str(left), "OMP_NUM_THREADS": "1"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DEBUG_TEMPROOT": str(left)}
        return self.processes.run(
            [*command, *map(str, paths)], SCRIPTS.parent, seconds, environment
        )
