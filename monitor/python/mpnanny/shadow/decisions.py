"""Decisions that fall the other way in FP64: masks and conditions made of values whose error is
known, which the program then branches on or chooses values by.

What follows from a branch has no reference of the other one, so no comparison shows it: the
reference takes the held side. Belongs to one shadow step, and to the thread that runs it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ..fp64.call import Call
from ..fp64.dependencies import memory_of
from ..fp64.places import Site
from .tape import Tape

_CHOOSERS = frozenset(("aten::where", "aten::masked_fill", "aten::masked_fill_"))


class Decisions:
    """Masks that are not as in FP64, by their number on the tape."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._count = 0
        # With the storage, whose address is no other one's as long as somebody refers to it.
        self._wrong: dict[int, tuple[StorageWeakRef, int]] = {}

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
        else:  # whether it is another one is not known yet
            number = call.node.number
            tape.write(lambda: tape.judge.mask(number, mask, share()))
            self._remember(held, mask)

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
