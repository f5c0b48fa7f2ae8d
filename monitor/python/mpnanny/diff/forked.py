"""Work in a process of its own, so that a crash, an endless loop or an exit of the user's code
costs that work only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

Tell = Callable[[dict[str, Any]], None]
_LOOK_SECONDS = 0.05


def forked(
    work: Callable[[Tell], None],
    seconds: float,
    took: Callable[[dict[str, Any]], None],
    *,
    is_group: bool = False,
) -> str:
    """Runs `work(tell)` in a fork of this process for at most `seconds`; what it tells goes to
    `took`, in order. "" where it came to its end, else how it ended, as a clause. `is_group`: what
    it has started ends with it.
    """
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        _be_child(work, sink, is_group)
    os.close(sink)
    try:
        return _listen(child, source, time.monotonic() + seconds, seconds, took, is_group)
    finally:
        os.close(source)


def _be_child(work: Callable[[Tell], None], sink: int, is_group: bool) -> NoReturn:
    code = 1
    try:
        if is_group:
            os.setpgid(0, 0)

        def tell(line: dict[str, Any]) -> None:
            os.write(sink, (json.dumps(line) + "\n").encode())

        work(tell)
        tell({"is_end": True})
        code = 0
    finally:
        os._exit(code)


def _listen(
    child: int,
    source: int,
    deadline: float,
    seconds: float,
    took: Callable[[dict[str, Any]], None],
    is_group: bool,
) -> str:
    lines = _Lines(took)
    status: int | None = None
    while status is None and time.monotonic() < deadline:
        if select.select([source], [], [], _LOOK_SECONDS)[0]:
            lines.add(os.read(source, 1 << 16))
        done, ended = os.waitpid(child, os.WNOHANG)
        status = ended if done else None
    over_time = status is None
    _kill(child, is_group)
    if status is None:
        status = os.waitpid(child, 0)[1]
    while select.select([source], [], [], 0)[0]:
        more = os.read(source, 1 << 16)
        if not more:
            break
        lines.add(more)
    if lines.is_at_end:
        return ""
    if over_time:
        return f"it ran longer than {max(1, round(seconds))} s"
    if os.WIFSIGNALED(status):
        return f"it was ended by signal {os.WTERMSIG(status)}"
    return f"it ended its process with exit code {os.WEXITSTATUS(status)}"


def _kill(child: int, is_group: bool) -> None:
    try:
        if is_group:
            os.killpg(child, signal.SIGKILL)
        else:
            os.kill(child, signal.SIGKILL)
    except OSError:  # it is gone
        pass


class _Lines:
    """What comes piece by piece, line by line."""

    def __init__(self, took: Callable[[dict[str, Any]], None]) -> None:
        self._took = took
        self._rest = b""
        self.is_at_end = False

    def add(self, more: bytes) -> None:
        *lines, self._rest = (self._rest + more).split(b"\n")
        for line in lines:
            told = json.loads(line)
            if told.get("is_end"):
                self.is_at_end = True
            else:
                self._took(told)
