"""What a user of auto_diff can do something about."""

from __future__ import annotations

import linecache
import os
from typing import Any

import torch

from ..operators.places import is_users


class Problem(Exception):
    """What is wrong, and what to try. `kind`: as in the answers of the server."""

    def __init__(self, message: str, advice: str = "", kind: str = "InvalidInput") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.kind = kind


def no_cuda(in_python: str) -> Problem:
    """Of `device` "cuda" where torch reaches none. `in_python`: the call that measures outside of
    the sandbox.
    """
    try:
        torch.cuda.init()
        why = "torch finds none"
    except (RuntimeError, AssertionError) as error:
        why = str(error).partition("\n")[0]
    return Problem(
        f"No CUDA device can be reached: {why.rstrip('.')}.",
        "Leave out `device`: the CPU stands in. If the machine has a GPU that this Python reaches "
        f"outside of mpnanny-sandbox, call {in_python} there.",
        "Unavailable",
    )


def users_line(error: BaseException, root: str) -> tuple[str, str]:
    """Where code of the user's raised it, `file:line`, and what stands there; "" where none did."""
    place = source = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if is_users(file):
            shown = os.path.relpath(file, root) if root and file.startswith(root) else file
            place = f"{shown}:{trace.tb_lineno}"
            source = linecache.getline(file, trace.tb_lineno).strip()[:120]
        trace = trace.tb_next
    return place, source


def stopped(error: BaseException, root: str) -> Problem | None:
    """What code of the user's raised while it was made ready or run; None of an error of ours."""
    place, source = users_line(error, root)
    if not place:
        return None
    words = f"{type(error).__name__}: {error}".splitlines()[0][:600]
    return Problem(
        f"The code stops at {place} ({source}): {words}",
        "Run that line by itself, on what it is given here.",
    )


def fails_in_full_precision(program: Any, error: BaseException) -> Problem:
    """Of a target that stops in FP32 already. Where a line of its own stops, that is said first:
    the inputs may not fit it, or it is wrong itself.
    """
    name = program.target.name
    words = f"{type(error).__name__}: {error}"[:600]
    place, source = users_line(error, program.target.root)
    if not place:
        return Problem(
            f"{name} does not take these inputs: {words}", "Check their number, shapes and dtypes."
        )
    return Problem(
        f"{name} stops in FP32 already, at {place} ({source}): {words}",
        "It is that line of the code, or inputs that do not fit it: check their shapes, dtypes and "
        "values first.",
    )
