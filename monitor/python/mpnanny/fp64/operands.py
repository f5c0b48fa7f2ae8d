"""The operands of an operator of a shadow step, looked at before it runs: the references that its
other run takes in their place, and copies of what it is about to write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..operators.places import pass_through
from .call import Call, Input, Written, floats, tensors_of
from .device_figures import copies
from .history import Held, is_float, version_of
from .operators import COMPLEX
from .references import NONE, References, is_whole, wide, widened
from .unwritten import Unwritten

pass_through(__file__)


class Operands:
    """Of one step. `fresh`: memory that was made in it without values. `compare`: what makes the
    figures of a comparison, and says in which slot they are.
    """

    def __init__(
        self,
        references: References,
        unwritten: Unwritten,
        fresh: set[int],
        compare: Callable[[torch.Tensor, torch.Tensor], int],
    ) -> None:
        self._compare = compare
        self._references = references
        self._unwritten = unwritten
        self._fresh = fresh

    def before_write(self, call: Call, value: Any) -> None:
        """`call` is about to write `value`."""
        operator = call.operator
        is_list = isinstance(value, (tuple, list))
        for each in tensors_of(value):
            if not is_float(each):
                call.whole.add(id(each))
                self._references.forget(each)  # the bits of floating-point numbers
                self._unwritten.writes(each, operator.overwrites and is_whole(each))
        lasting: list[Written] = []  # what outlives the step
        for position, tensor in enumerate(floats(value)):
            memory = tensor.untyped_storage()._cdata
            entry = self._references.entry(tensor)
            existed = entry is not None
            slot = NONE if entry is None else entry.slot_of(tensor)
            overwritten = operator.overwrites and memory not in call.shared
            whole = overwritten and is_whole(tensor)
            reference = self._references.writable(tensor, overwritten)
            entry = self._references.entry(tensor)
            if entry is None:
                continue
            if not existed:
                entry.new = memory in self._fresh
                entry.kept = not entry.new
            if whole:
                entry.kept = False
            elif not overwritten:
                self._references.reads(entry)
            self._unwritten.writes(tensor, whole)
            at = position if is_list else None
            written = Written(tensor, reference, entry, None, None, slot, at)
            if operator.change and not entry.new:
                lasting.append(written)
                if not existed and whole:  # about to be overwritten, it has no values before that
                    written.was = widened(tensor)
            elif not operator.overwrites:
                if operator.change and slot == NONE:
                    written.slot = self._compare(tensor, reference)
                if not operator.is_list:
                    written.before = tensor.detach().clone()  # for a cure
            entry.slot = NONE
            call.written.append(written)
        befores = copies([each.tensor.detach() for each in lasting])
        wases = copies([each.reference for each in lasting if each.was is None])
        for written in lasting:
            written.before = next(befores)
            written.was = next(wases) if written.was is None else written.was

    def reference(
        self,
        call: Call,
        value: Any,
        writes: set[int],
        depth: int,
        position: int | None = None,
    ) -> Any:
        if isinstance(value, torch.Tensor):
            if not is_float(value):
                return value.clone() if id(value) in writes else value
            entry = self._references.start(value)
            self._references.reads(entry)
            reference = self._references.of(value)
            assert reference is not None
            call.memories.add(value.untyped_storage()._cdata)
            if id(value) in writes:
                written = next(each for each in call.written if each.tensor is value)
                before = value if written.before is None else written.before
                was = written.reference if written.was is None else written.was
                read = call.operator.change and not call.operator.overwrites
                call.operands.append(
                    Input.of(value, before, was, entry, written.slot, position, read)
                )
                return written.reference
            slot = entry.slot_of(value)
            call.operands.append(Input.of(value, value, reference, entry, slot, position))
            return reference
        if isinstance(value, torch.dtype):
            return wide(value) if value.is_floating_point or value in COMPLEX else value
        if depth < 4:
            if isinstance(value, (tuple, list)):
                return type(value)(
                    self.reference(call, each, writes, depth + 1, at if depth else None)
                    for at, each in enumerate(value)
                )
            if isinstance(value, dict):
                return {k: self.reference(call, v, writes, depth + 1) for k, v in value.items()}
        return value

    def kept(self, call: Call, value: Any, writes: set[int]) -> Any:
        if isinstance(value, torch.Tensor):
            if not is_float(value):
                return value.clone() if id(value) in writes else value
            entry = self._references.entry(value)
            alias = value.detach()
            if id(value) in writes:
                written = next(each for each in call.written if each.tensor is value)
                alias = torch.empty_like(alias) if written.before is None else written.before
            call.node.bytes += alias.numel() * alias.element_size()
            return Held(
                alias,
                version_of(alias),
                entry.node if entry is not None else None,
                value.untyped_storage()._cdata,
                entry.ulp if entry is not None else 0.0,
            )
        if isinstance(value, (tuple, list)):
            return type(value)([self.kept(call, each, writes) for each in value])
        if isinstance(value, dict):
            return {key: self.kept(call, each, writes) for key, each in value.items()}
        if type(value) is float and self._references.uncertainty is not None:
            self._references.uncertainty.kept.uses(value)
        return value
