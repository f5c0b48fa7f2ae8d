"""Child processes that end with their whole group: at a time limit, and all of them at Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

# A mutant may allocate in a loop that no longer ends.
MOST_MEMORY_KB = 16 << 20


@dataclass(frozen=True)
class Ended:
    code: int | None  # None at the time limit
    output: str


class Processes:
    """Runs commands from several threads. After `stop` there are none and no more begin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(
        self, command: list[str], cwd: Path, seconds: float, env: dict[str, str] | None = None
    ) -> Ended:
        limited = f'ulimit -v {MOST_MEMORY_KB}; exec "$@"'
        with self._lock:
            if self._stopped:
                return Ended(None, "")
            child = subprocess.Popen(
                ["bash", "-c", limited, "bash", *command],
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running.add(child)
        try:
            output, _ = child.communicate(timeout=seconds)
            return Ended(child.returncode, output)
        except subprocess.TimeoutExpired:
            return Ended(None, "")
        finally:
            _kill(child)  # the group: what the tests started may outlive them
            child.communicate()
            with self._lock:
                self._running.discard(child)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for child in self._running:
                _kill(child)


def _kill(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
