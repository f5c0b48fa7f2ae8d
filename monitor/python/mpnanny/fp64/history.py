"""The last operators of a shadow step with what went into them, so that a few of them can be
computed again in another precision.

Inputs are kept as aliases of their memory with its version: what was overwritten since is known as
such. The ring is bounded in operators and in bytes; nothing in it keeps memory alive for long.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from .operators import FLOATS, HIDDEN_WRITES, Operator
from .places import Site

MOST_NODES = 2048
T = TypeVar("T")

LASTING = -1  # Held.memory of what an earlier step has made
MOST_BYTES = 256 << 20


def version_of(tensor: torch.Tensor) -> int:
    """How often its memory was written; of an inference tensor torch does not count."""
    return -1 if tensor.is_inference() else tensor._version


def is_backed(tensor: torch.Tensor) -> bool:
    """Whether its memory is still there: sharded training takes it away from tensors that live on,
    by resizing their storage, which torch counts as no write.
    """
    if not tensor.numel():
        return True
    last = sum((n - 1) * each for n, each in zip(tensor.shape, tensor.stride(), strict=True))
    end = (tensor.storage_offset() + last + 1) * tensor.element_size()
    return end <= tensor.untyped_storage().nbytes()


@dataclass(slots=True)
class Held:
    """A floating-point tensor among the arguments of an operator."""

    alias: torch.Tensor
    version: int
    producer: Node | None  # the operator that wrote its memory last, before this one
    memory: int  # its storage
    ulp: float = 0.0  # of what came in with the step: part of it by which it may be off

    def intact(self) -> bool:
        return self.version == version_of(self.alias) and is_backed(self.alias)


@dataclass(slots=True)
class Layout:
    """Where a result lies in its memory."""

    memory: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


@dataclass(slots=True)
class Node:
    """One operator that was run."""

    operator: Operator
    function: Any
    site: Site
    number: int
    args: Any = None  # with a Held for each floating-point tensor; None once it left the ring
    kwargs: Any = None
    outputs: list[Layout] = field(default_factory=list)
    bytes: int = 0

    def inputs(self) -> list[Held]:
        return self._arguments(Held)

    def read(self) -> list[Held]:
        """The inputs without the running statistics of a normalisation of batches, which it only
        brings up to date.
        """
        hidden = HIDDEN_WRITES.get(self.operator.schema_name, ())
        if not hidden or self.args is None or not self.operator.writes(self.args):
            return self.inputs()
        brought = {id(self.args[at]) for at in hidden if at < len(self.args)}
        return [each for each in self.inputs() if id(each) not in brought]

    def numbers(self) -> list[float]:
        """Those with a fraction that it was called with."""
        return self._arguments(float)

    def _arguments(self, kind: type[T]) -> list[T]:
        found: list[T] = []

        def walk(value: Any) -> None:
            if isinstance(value, kind):
                found.append(value)
            elif isinstance(value, (tuple, list)):
                for each in value:
                    walk(each)
            elif isinstance(value, dict):
                for each in value.values():
                    walk(each)

        walk((self.args, self.kwargs))
        return found


def is_float(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor) and value.dtype in FLOATS and value.layout is torch.strided
    )


def is_clean(tensor: torch.Tensor) -> bool:
    """Finite, or with the -inf of a mask and nothing worse."""
    return bool((tensor.isfinite() | (tensor == -math.inf)).all())


class History:
    def __init__(self) -> None:
        self._nodes: deque[Node] = deque()
        self._bytes = 0

    def add(self, node: Node) -> None:
        self._nodes.append(node)
        self._bytes += node.bytes
        while len(self._nodes) > MOST_NODES or self._bytes > MOST_BYTES:
            self._drop(self._nodes.popleft())

    def _drop(self, node: Node) -> None:
        self._bytes -= node.bytes
        node.args = node.kwargs = None

    def newest(self) -> Iterator[Node]:
        """The newest ones first."""
        return reversed(self._nodes)

    def clear(self) -> None:
        while self._nodes:
            self._drop(self._nodes.popleft())
