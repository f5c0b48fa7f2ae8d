"""Version counts of what operators on lists write."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from .call import floats
from .operators import Operator


@contextlib.contextmanager
def counted_writes(operator: Operator, args: tuple[Any, ...]) -> Iterator[None]:
    """Under a dispatch mode torch does not count what operators on lists write. Without the count
    a graph whose weights have changed would be derived as if they had not.
    """
    lists = [args[at] for at in operator.written if at < len(args)]
    written = [each for each in floats(lists) if not each.is_inference()]
    before = [each._version for each in written]
    yield
    stale = [each for each, was in zip(written, before, strict=True) if each._version == was]
    if stale:
        torch.autograd.graph.increment_version(stale)
