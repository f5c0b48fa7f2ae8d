"""Code that torch.compile has been called on: it is tried as it was written. What a compiler makes
of it cannot be followed operator by operator.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch


def uncompiled(found: Any) -> Any:
    """The module or the function that was compiled; anything else as it is."""
    found = getattr(found, "_torchdynamo_orig_callable", found)
    return getattr(found, "_orig_mod", found)


@contextlib.contextmanager
def running_eagerly() -> Iterator[None]:
    """What is compiled inside of a target runs as it was written."""
    stance: Any = getattr(torch.compiler, "set_stance", None)  # since torch 2.6
    if stance is None or "torch._dynamo" not in sys.modules:
        yield
        return
    with stance("force_eager"):
        yield
