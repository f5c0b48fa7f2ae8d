"""The child of the server's tool auto_diff: one request from stdin, JSON lines to a descriptor of
its own. stdout and stderr belong to the target.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from typing import Any, TextIO


def _write(out: TextIO, **line: Any) -> None:
    out.write(json.dumps(line, allow_nan=False) + "\n")
    out.flush()


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m mpnanny.diff")
    arguments.add_argument("--answer-fd", type=int, required=True)
    given = arguments.parse_args()
    request = json.load(sys.stdin)
    if request.get("root"):
        os.chdir(request["root"])  # where the project's own scripts are started
    with os.fdopen(given.answer_fd, "w", encoding="utf-8") as out:
        from . import diff_request
        from .problem import Problem

        try:
            answer = diff_request(
                request, lambda done, what: _write(out, progress={"done": done, "what": what})
            )
            _write(out, answer=answer)
        except Problem as problem:
            shown = {"kind": problem.kind, "message": problem.message, "try": problem.advice}
            _write(out, error=shown)
        except Exception as error:
            traceback.print_exc()
            message = f"auto_diff itself failed: {type(error).__name__}: {error}"
            _write(out, error={"kind": "Internal", "message": message, "try": ""})
    return 0


if __name__ == "__main__":
    sys.exit(main())
