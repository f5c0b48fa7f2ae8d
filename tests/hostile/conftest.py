"""A server on standard streams, and databases as the monitor's schema makes them: for tests of what
a server that is kept to its roots reads and writes.
"""

from __future__ import annotations

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("MPNANNY_PROGRAM", ROOT / "build/release/bin/mpnanny"))
STEPS = 60


class Server:
    """`mpnanny serve` and one client of it."""

    def __init__(self, root: pathlib.Path, *options: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [str(PROGRAM), "serve", "--root", str(root), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
        )
        self._id = 0
        client = {"name": "test", "version": "1"}
        self.ask(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client},
        )
        self._send({"method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The whole response, an error as well."""
        self._id += 1
        self._send({"id": self._id, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._id and "method" not in answer:
                return answer
        raise AssertionError(f"the server ended with {self._process.wait()}")

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(20) == 0


def text_of(answer: dict[str, Any]) -> str:
    return "\n".join(part.get("text", "") for part in answer["content"])


def record(path: pathlib.Path, name: str = "run", wal: bool = False) -> sqlite3.Connection:
    """A database of one run whose end nobody has written; open."""
    file = sqlite3.connect(path, isolation_level=None)
    if wal:
        file.execute("PRAGMA journal_mode=WAL")
        file.execute("PRAGMA wal_autocheckpoint=0")
    for schema in sorted((ROOT / "monitor/schema").glob("*.sql")):
        file.executescript(schema.read_text())
    file.execute("BEGIN")
    file.execute(
        "INSERT INTO run (name, rank, world_size, started_at) VALUES (?, 0, 1, 1.7e9)", [name]
    )
    file.execute(
        "INSERT INTO layer (layer_id, run_id, name, type, position, numel)"
        " VALUES (1, 1, 'fc', 'Linear', 0, 8)"
    )
    for step in range(STEPS):
        file.execute(
            "INSERT INTO step (run_id, step, at, loss, flags) VALUES (1, ?, ?, ?, 64)",
            [step, 1.7e9 + step, 2.0 / (step + 1)],
        )
        file.execute(
            "INSERT INTO tensor_stats (run_id, step, layer_id, kind, slot, dtype, numel, nan,"
            " posinf, neginf, absmax) VALUES (1, ?, 1, 1, 0, 2, 8, 0, 0, 0, 1.5)",
            [step],
        )
    file.execute("COMMIT")
    return file


def record_and_die(path: pathlib.Path) -> None:
    """The same by a process that is killed: the WAL and its index stay."""
    script = (
        "import os, pathlib, signal, sys; sys.path.insert(0, sys.argv[1]); import conftest;"
        "kept = conftest.record(pathlib.Path(sys.argv[2]), wal=True);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    folder = str(pathlib.Path(__file__).parent)
    subprocess.run([sys.executable, "-c", script, folder, str(path)], check=False)
    assert path.with_name(path.name + "-shm").stat().st_size > 0


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    folder = tmp_path / "root"
    folder.mkdir()
    yield folder
    for each in [folder, *folder.rglob("*")]:
        if each.is_dir() and not each.is_symlink():
            each.chmod(0o755)
