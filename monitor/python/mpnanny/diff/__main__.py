"""The child of the server's tool auto_diff: one request from stdin, JSON lines to a descriptor of
its own. stdout and stderr belong to the target.

The request holds a token, which each line has to hold: what else writes to the descriptor, by
mistake or by intent, is told apart by that. Code that reads the memory of this process finds it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

Say = Callable[[float, str], None]


class _Lines:
    """What is said, line by line."""

    def __init__(self, out: TextIO, token: str) -> None:
        self._out = out
        self._token = token

    def write(self, **line: Any) -> None:
        self._out.write(json.dumps({"token": self._token, **line}, allow_nan=False) + "\n")
        self._out.flush()


def serve(tool: str, answer: Callable[[dict[str, Any], Say], dict[str, Any]]) -> NoReturn:
    """Reads one request, writes progress and what `answer` gives, or how it failed, and ends this
    process: what the target has left to run at an interpreter's end, or in threads, comes too late
    to change an answer that has been given.
    """
    arguments = argparse.ArgumentParser(prog=f"python -m mpnanny ({tool})")
    arguments.add_argument("--answer-fd", type=int, required=True)
    given = arguments.parse_args()
    request = json.load(sys.stdin)
    if request.get("root"):
        os.chdir(request["root"])  # where the project's own scripts are started
    with os.fdopen(given.answer_fd, "w", encoding="utf-8") as out:
        from ..programs.problem import Problem, stopped

        lines = _Lines(out, request.pop("token"))

        def say(done: float, what: str) -> None:
            lines.write(progress={"done": done, "what": what})

        def refuse(problem: Problem) -> None:
            shown = {"kind": problem.kind, "message": problem.message, "try": problem.advice}
            lines.write(error=shown)

        try:
            lines.write(answer=answer(request, say))
        except Problem as problem:
            refuse(problem)
        except Exception as error:
            told = stopped(error, str(request.get("root") or ""))
            if told is not None:
                refuse(told)
            else:
                traceback.print_exc()
                message = f"{tool} itself failed: {type(error).__name__}: {error}"
                lines.write(error={"kind": "Internal", "message": message, "try": ""})
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # they are the target's
            stream.flush()
    os._exit(0)


def _diff(request: dict[str, Any], say: Say) -> dict[str, Any]:
    if "suspects" in request:
        from .proofs import prove_all

        return prove_all(request, say)
    from . import diff_request

    return diff_request(request, say)


if __name__ == "__main__":
    serve("auto_diff", _diff)
