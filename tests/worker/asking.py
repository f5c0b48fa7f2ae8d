"""What the tests of the worker ask: `mpnanny capture`, `mpnanny diff`, a server line by line."""

from __future__ import annotations

import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import torch
from mpnanny.base.safetensors import load

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
PROGRAM = ROOT / "build" / "release" / "bin" / "mpnanny"
WORKER = PROGRAM.with_name("mpnanny-worker")


def run(*words: Any, timeout: float = 180) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the program."""
    done = subprocess.run(
        [PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=timeout, check=False
    )
    return done.returncode, done.stdout, done.stderr


def inputs(words: list[str]) -> list[str]:
    """The words as they stand on the command line: one option for each, since a word may be
    negative or hold a blank.
    """
    return [part for word in words for part in ("--input", word)]


def read(path: pathlib.Path) -> dict[str, torch.Tensor]:
    """A capture: tensors by name, in the order in which they were made."""
    tensors, metadata = load(str(path))
    return {name: tensors[name] for name in str(metadata["order"]).split("\n") if name}


def capture(file: pathlib.Path, words: list[str], seed: int = 0) -> dict[str, torch.Tensor]:
    """What each module of the model in `file` gives, by the worker."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.safetensors"
        code, _, err = run("capture", file, *inputs(words), "--seed", seed, "-o", out)
        assert code == 0, err
        return read(out)


def diff(
    file: pathlib.Path, words: list[str], dtype: str = "bf16", policy: str = "pure", seed: int = 0
) -> tuple[int, dict[str, Any], str]:
    """Exit code, answer ({} where there is none) and stderr."""
    code, out, err = run(
        *("diff", "--model", file, *inputs(words), "--seed", seed),
        *("--dtype", dtype, "--policy", policy, "--format", "json"),
    )
    return code, json.loads(out) if code in (0, 1) else {}, err


class Server:
    """`mpnanny serve --root ROOT`, spoken to line by line."""

    def __init__(self, root: pathlib.Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [PROGRAM, "serve", *options, "--root", root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.number = 0
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        first = self.ask(
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "test", "version": "1"},
        )
        assert "result" in first
        self.send("notifications/initialized")

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")  # it has ended

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def start(self, method: str, **params: Any) -> int:
        """Sends a request; its number."""
        self.number += 1
        self.send(method, self.number, **params)
        return self.number

    def answer(self, number: int, timeout: float = 60) -> dict[str, Any]:
        """The message that answers request `number`. Raises queue.Empty if none comes in time."""
        until = time.monotonic() + timeout
        while True:
            line = self.lines.get(timeout=max(0.01, until - time.monotonic()))
            assert line, f"the server has ended with {self.process.wait(10)}"
            message = json.loads(line)
            if message.get("id") == number:
                return message

    def ask(self, method: str, timeout: float = 60, **params: Any) -> dict[str, Any]:
        return self.answer(self.start(method, **params), timeout)

    def begin(self, **arguments: Any) -> int:
        """Sends a call of auto_diff."""
        return self.start("tools/call", name="auto_diff", arguments=arguments)

    def call(self, timeout: float = 60, **arguments: Any) -> dict[str, Any]:
        """The result of auto_diff."""
        message = self.answer(self.begin(**arguments), timeout)
        assert "result" in message, message
        return message["result"]

    def close(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def text_of(result: dict[str, Any]) -> str:
    return "\n".join(each.get("text", "") for each in result["content"])


def workers_below(parent: int) -> list[int]:
    """Processes of mpnanny-worker that `parent` has started, through whatever stands between."""
    parents: dict[int, int] = {}
    found = []
    for each in pathlib.Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            held = (each / "stat").read_text().rpartition(")")[2].split()
            words = (each / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        parents[int(each.name)] = int(held[1])
        if WORKER.name in words:
            found.append(int(each.name))

    def descends(process: int) -> bool:
        while process in parents:
            process = parents[process]
            if process == parent:
                return True
        return False

    return [each for each in found if descends(each)]


def processor_time(process: int) -> float:
    """Seconds that a process has used; 0 where there is none."""
    try:
        held = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(held[11]) + int(held[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(condition: Any, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "what was waited for did not come"
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit("This file holds what the tests share.")
