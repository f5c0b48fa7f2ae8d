"""Decisions that fall the other way in FP64: masks and conditions made of values whose error is
known, which the program then branches on or chooses values by, and choices (topk, sort, argmax)
that become indices.

What follows from a branch has no reference of the other one, so no comparison shows it: the
reference takes the held side. Belongs to one shadow step, and to the thread that runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ..fp64.call import Call, tensors_of
from ..fp64.dependencies import memory_of
from ..fp64.history import is_float
from ..fp64.places import Site
from ..fp64.selection import share_of_other_elements, share_of_others
from .evidence import Evidence
from .tape import Tape, element

# Of the places that an operator has chosen: other ones are more than chance between close values.
WRONG_SHARE = 0.25
FEWEST_WRONG = 8
MOST_CHOICES = 64  # whose tensors are kept until they are used

_INDEXERS = frozenset(
    f"aten::{name}"
    for name in (
        "index index_select gather embedding take _unsafe_index index_put index_put_ scatter"
        " scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ index_add index_add_"
        " index_copy index_copy_ index_fill index_fill_ masked_select masked_scatter"
    ).split()
)
_LOGIC = frozenset(
    f"aten::{name}"
    for name in (
        "bitwise_and bitwise_or bitwise_not logical_and logical_or logical_not bitwise_and_"
        " bitwise_or_ logical_and_ logical_or_"
    ).split()
)
_CHOOSERS = frozenset(("aten::where", "aten::masked_fill", "aten::masked_fill_"))


class Decisions:
    """Masks that are not as in FP64, by their number on the tape."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._count = 0
        # With the storage, whose address is no other one's as long as somebody refers to it.
        self._wrong: dict[int, tuple[StorageWeakRef, int]] = {}
        # By memory: whole numbers that come of other choices than those of the reference, and what
        # puts the choice on the tape.
        self._others: dict[int, tuple[StorageWeakRef, Callable[[], None]]] = {}

    def made(self, call: Call, held: torch.Tensor, reference: torch.Tensor) -> None:
        """A boolean result, of values that `call` compared."""
        tape = self._tape
        if not tape.waits and not any(each.error > 0 for each in call.inputs):
            return
        if held.shape != reference.shape or not held.numel() or not call.inputs:
            return
        share = tape.share_of_others(held, reference)
        mask = self._count = self._count + 1
        if not tape.waits:
            if tape.judge.mask(call.node.number, mask, share()):
                self._remember(held, mask)
            elif held.dtype is reference.dtype and held.dim():
                self._chose(call, 0, held, reference, *share_of_other_elements(held, reference))
        else:  # whether it is another one is not known yet
            number = call.node.number
            tape.write(lambda: tape.judge.mask(number, mask, share()))
            self._remember(held, mask)

    def chose(self, call: Call, index: int, held: torch.Tensor, reference: torch.Tensor) -> None:
        """`call` has chosen the places `held`. On a device it would have to be waited for."""
        tape = self._tape
        if tape.waits or not any(each.error > 0 for each in call.inputs):
            return
        share = share_of_others(call, held, reference)
        self._chose(call, index, held, reference, share, round(share * held.numel()))

    def _chose(
        self,
        call: Call,
        index: int,
        held: torch.Tensor,
        reference: torch.Tensor,
        share: float,
        others: int,
    ) -> None:
        tape = self._tape
        if share < WRONG_SHARE or others < FEWEST_WRONG:
            return
        if len(self._others) >= MOST_CHOICES:
            del self._others[next(iter(self._others))]
        evidence = Evidence(tape, call, index, held, reference)
        row = (call.node.number, index, element(held.dtype), held.shape, share)
        told: list[bool] = []

        def tell() -> None:
            if not told:
                told.append(True)
                tape.write(tape.judge.indices, evidence, *row)

        self._others[memory_of(held)] = (StorageWeakRef(held.untyped_storage()), tell)

    def whole_numbers(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        """An operator has run. What it makes of other choices are other numbers, too, and what it
        looks up by them is something else.
        """
        if not self._others:
            return
        places = args[1:] if name in _INDEXERS else args[:2] if name in _CHOOSERS else ()
        for each in tensors_of(places):
            if (known := self._others.get(memory_of(each))) is not None:
                known[1]()
        for each in tensors_of(args):
            known = self._others.get(memory_of(each))
            if known is None:
                continue
            for made in tensors_of(result):
                if not is_float(made) and (made.dtype is not torch.bool or name in _LOGIC):
                    again = StorageWeakRef(made.untyped_storage())
                    self._others.setdefault(memory_of(made), (again, known[1]))

    def _remember(self, held: torch.Tensor, mask: int) -> None:
        self._wrong[memory_of(held)] = (StorageWeakRef(held.untyped_storage()), mask)

    def read(self, tensor: torch.Tensor, site: Site | None) -> None:
        """The program asks for its value."""
        if self._wrong and (found := self._wrong.get(memory_of(tensor))) is not None:
            tape = self._tape
            tape.write(tape.judge.decided, found[1], site.source if site else "")

    def chosen_by(self, call: Call, args: tuple[Any, ...]) -> None:
        """An operator is about to choose values by masks."""
        if self._wrong and call.operator.schema_name in _CHOOSERS:
            for each in args[:2]:
                if isinstance(each, torch.Tensor) and each.dtype is torch.bool:
                    self.read(each, call.site)
