"""The inputs of each step of a trial, from a function of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

Batches = Callable[[int], Any]


def of_step(batches: Callable[..., Any]) -> Batches:
    """`batches(step)` of a function that takes the step, or of one that takes nothing and gives the
    next batch at each call.
    """
    try:
        takes = inspect.signature(batches)
    except (TypeError, ValueError):  # of C, say
        return batches
    try:
        takes.bind(0)
    except TypeError:
        return lambda step: batches()
    return batches
