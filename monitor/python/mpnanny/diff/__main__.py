"""The child of the server's tool auto_diff: one request from stdin, JSON lines to a descriptor of
its own. stdout and stderr belong to the target.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, TextIO

Say = Callable[[float, str], None]


def _write(out: TextIO, **line: Any) -> None:
    out.write(json.dumps(line, allow_nan=False) + "\n")
    out.flush()


def serve(tool: str, answer: Callable[[dict[str, Any], Say], dict[str, Any]]) -> int:
    """Reads one request, writes progress and what `answer` gives, or how it failed."""
    arguments = argparse.ArgumentParser(prog=f"python -m mpnanny ({tool})")
    arguments.add_argument("--answer-fd", type=int, required=True)
    given = arguments.parse_args()
    request = json.load(sys.stdin)
    if request.get("root"):
        os.chdir(request["root"])  # where the project's own scripts are started
    with os.fdopen(given.answer_fd, "w", encoding="utf-8") as out:
        from .problem import Problem, stopped

        def say(done: float, what: str) -> None:
            _write(out, progress={"done": done, "what": what})

        def refuse(problem: Problem) -> None:
            shown = {"kind": problem.kind, "message": problem.message, "try": problem.advice}
            _write(out, error=shown)

        try:
            _write(out, answer=answer(request, say))
        except Problem as problem:
            refuse(problem)
        except Exception as error:
            told = stopped(error, str(request.get("root") or ""))
            if told is not None:
                refuse(told)
                return 0
            traceback.print_exc()
            message = f"{tool} itself failed: {type(error).__name__}: {error}"
            _write(out, error={"kind": "Internal", "message": message, "try": ""})
    return 0


def _diff(request: dict[str, Any], say: Say) -> dict[str, Any]:
    from . import diff_request

    return diff_request(request, say)


if __name__ == "__main__":
    sys.exit(serve("auto_diff", _diff))
