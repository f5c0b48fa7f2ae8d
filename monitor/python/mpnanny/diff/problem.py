"""What a user of auto_diff can do something about."""

from __future__ import annotations

import linecache
import os
from typing import Any

from ..operators.places import is_users


class Problem(Exception):
    """What is wrong, and what to try. `kind`: as in the answers of the server."""

    def __init__(self, message: str, advice: str = "", kind: str = "InvalidInput") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.kind = kind


def fails_in_full_precision(program: Any, error: BaseException) -> Problem:
    """Of a target that stops in FP32 already. Where a line of its own stops, that is said first: the
    inputs may not fit it, or it is wrong itself.
    """
    name = program.target.name
    words = f"{type(error).__name__}: {error}"[:600]
    place = source = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if is_users(file):
            root = program.target.root
            shown = os.path.relpath(file, root) if root and file.startswith(root) else file
            place = f"{shown}:{trace.tb_lineno}"
            source = linecache.getline(file, trace.tb_lineno).strip()[:120]
        trace = trace.tb_next
    if not place:
        return Problem(
            f"{name} does not take these inputs: {words}", "Check their number, shapes and dtypes."
        )
    return Problem(
        f"{name} stops in FP32 already, at {place} ({source}): {words}",
        "It is that line of the code, or inputs that do not fit it: check their shapes, dtypes and "
        "values first.",
    )
