"""One operator of a shadow step between its start and its end."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .findings import Cure
from .history import Node, is_float
from .operators import Operator
from .places import Site
from .references import Entry


@dataclass(slots=True)
class Input:
    tensor: torch.Tensor  # the argument
    held: torch.Tensor  # with the values before the operator
    reference: torch.Tensor
    node: Node | None
    memory: int  # as Entry.memory
    slot: int  # of a comparison that was made already, NONE
    position: int | None  # in a list of tensors
    read: bool = True  # not only written
    error: float = 0.0  # relative, against the reference
    doubt: bool = False  # as Entry.doubt

    @classmethod
    def of(
        cls,
        tensor: torch.Tensor,
        held: torch.Tensor,
        reference: torch.Tensor,
        entry: Entry,
        slot: int,
        position: int | None,
        read: bool = True,
    ) -> Input:
        """`entry`: as it is before the operator."""
        return cls(
            tensor,
            held,
            reference,
            entry.node,
            entry.memory,
            slot,
            position,
            read,
            doubt=entry.doubt,
        )


@dataclass(slots=True)
class Written:
    """An argument that the operator writes."""

    tensor: torch.Tensor
    reference: torch.Tensor  # changes with the operator
    entry: Entry
    before: torch.Tensor | None  # copy of the old value, where it is needed
    was: torch.Tensor | None  # of the reference
    slot: int  # of the old value's comparison with its reference, NONE
    position: int | None  # in a list of tensors


class Call:
    """One operator between its start and its end."""

    __slots__ = (
        "cured",
        "function",
        "memories",
        "node",
        "operands",
        "operator",
        "position",
        "reference_args",
        "reference_kwargs",
        "rounding",
        "shared",
        "site",
        "whole",
        "written",
    )

    def __init__(self, operator: Operator, function: Any, site: Site, number: int) -> None:
        self.operator = operator
        self.function = function
        self.site = site
        self.node = Node(operator, function, site, number)
        self.reference_args: Any = ()
        self.reference_kwargs: Any = {}
        self.operands: list[Input] = []  # floating-point arguments, in their order
        self.written: list[Written] = []
        # ids of the whole numbers and masks that it writes: another run of it gets copies, since
        # what it writes is the program's.
        self.whole: set[int] = set()
        self.memories: set[int] = set()
        self.shared: set[int] = set()  # memory of several arguments, where one is overwritten
        # Part of the held error below which the reference may be its own rounding, where that is
        # of products in FP32.
        self.rounding = 0.0
        # Of an operator of an earlier step: what cures its error of a size, or why nothing does.
        self.cured: Callable[[float], Cure | str] | None = None
        self.position: int | None = None  # in the lists of the call, of the result in question

    @property
    def inputs(self) -> list[Input]:
        """What the operator reads."""
        return [each for each in self.operands if each.read]

    def sources(self) -> list[Input]:
        """What the result in question is made of: of lists the tensors at its position."""
        if self.position is None:
            return self.inputs
        return [each for each in self.inputs if each.position in (None, self.position)]


def floats(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if is_float(value):
            yield value
    elif depth < 4:
        if isinstance(value, (tuple, list)):
            for each in value:
                yield from floats(each, depth + 1)
        elif isinstance(value, dict):
            for each in value.values():
                yield from floats(each, depth + 1)


def tensors_of(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < 4 and isinstance(value, (tuple, list)):
        for each in value:
            yield from tensors_of(each, depth + 1)


def shared_memory(value: Any) -> set[int]:
    """Memory that several floating-point tensors of an operator's arguments share."""
    count = Counter(each.untyped_storage()._cdata for each in floats(value))
    return {memory for memory, times in count.items() if times > 1}


@dataclass(slots=True)
class Result:
    """What is judged: one result of an operator, as held and as its reference."""

    call: Call
    index: int  # among the results of the operator
    held: torch.Tensor
    reference: torch.Tensor


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
