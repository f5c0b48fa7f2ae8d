"""What depends on which parameter in one shadow step: of every memory the parameters that its
values are made of, those of them that a gradient would reach through it, and the operators that cut
the others off. And of a backward pass which operator's gradient is 0 first.

Sets of parameters and of cuts are the bits of one whole number, so that an operator costs a few
dictionary look-ups. A memory is a storage's _cdata, as in references.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ..model.functional import plain
from .call import Call, tensors_of
from .comparison import Comparison, on_host
from .history import LASTING, Node, is_float
from .operators import SKIP, VIEW, Operator
from .places import Site
from .references import NONE, widened

MOST_CUTS = 10_000

MOST_NODES = 32  # that are looked through for where a number comes from
# By a wrong number of these every value is wrong by as much; what others of them change is seen in
# their result.
_SCALE = frozenset(("mul", "div", "lerp", "pow"))
_ADD = frozenset(("add", "sub", "rsub", "clamp", "clamp_min", "clamp_max", "maximum", "minimum"))


@dataclass(slots=True)
class Cut:
    """An operator behind which no gradient goes on, or one that is 0 everywhere."""

    site: Site
    bit: int
    whole_numbers: bool  # it makes whole numbers: an index, a mask
    parameters: int = 0  # that are cut off here
    always: bool = False  # its derivative is 0 whatever its values are
    largest: float = 0.0  # magnitude of what it made zeros of


def memory_of(tensor: torch.Tensor) -> int:
    memory: int = tensor.untyped_storage()._cdata
    return memory


def is_zero(tensor: torch.Tensor) -> bool:
    """Whether every element is 0. A sparse gradient is not looked at: it is not. Waits for a
    device.
    """
    if tensor.layout is not torch.strided or not tensor.numel():
        return False
    return not bool(tensor.detach().any().item())


def are_zero(tensors: Sequence[torch.Tensor]) -> list[bool]:
    """As is_zero() of each; waits for a device once."""
    there = [each for each in tensors if is_float(each) and each.numel() and not on_host(each)]
    if not there:
        return [is_zero(each) for each in tensors]
    norms = torch._foreach_norm([each.detach() for each in there], math.inf)
    sizes = torch.stack([each.to(torch.float64) for each in norms]).tolist()
    known = {id(each): size == 0 for each, size in zip(there, sizes, strict=True)}
    return [known[id(each)] if id(each) in known else is_zero(each) for each in tensors]


class Compared(Protocol):
    """The figures of what a step has compared, which may come later (shadow/tape.py)."""

    def figures(self, slot: int) -> Comparison | None: ...
    def write(self, row: Callable[..., Any], *fields: Any) -> None: ...
    def settle(self) -> None: ...


@dataclass(slots=True)
class _Value:
    """A tensor of the backward pass, as an operator has read or made it."""

    memory: int
    slot: int  # of its comparison with its reference
    tensor: torch.Tensor | None  # where it was not compared and lies on the host


class Dependencies:
    """Of one step. `saw()` is called after each operator, inside of the dispatch mode."""

    def __init__(self, compared: Compared) -> None:
        self._compared = compared
        self.restart()

    def restart(self) -> None:
        """What was seen so far came before the training."""
        self._made_of: dict[int, int] = {}
        self._carried: dict[int, int] = {}  # of these a gradient would come
        self._dark: set[int] = set()  # made while nothing required a gradient
        self._detached: dict[int, Site] = {}
        self._maker: dict[int, Site] = {}
        self._bits = itertools.count()
        self._bit_of: dict[int, int] = {}  # of parameters and other leaves, by memory
        self.leaves: dict[int, torch.Tensor] = {}  # leaves that the caller has not named
        self._cuts: dict[tuple[Any, ...], Cut] = {}
        self._zeros: dict[int, tuple[Cut, ...]] = {}  # memories that are 0, and what made them so
        self._old: dict[int, StorageWeakRef] = {}  # gradients that an optimizer has used already
        self._added: set[int] = set()  # those of them that a backward pass added to
        self.moved: set[int] = set()  # leaves that something other than an optimizer has written
        self._loss = 0
        self._watched: set[int] = set()  # memories
        self.used: dict[int, Site] = {}  # those of them that an operator has read

    # --- what the step says ---

    def know(self, parameters: Iterable[torch.Tensor]) -> None:
        for each in parameters:
            self._leaf(memory_of(each))

    def mark_old(self, gradients: Iterable[torch.Tensor]) -> None:
        """An optimizer has used them, and no backward pass has run since."""
        for each in gradients:
            storage = each.untyped_storage()
            self._old[storage._cdata] = StorageWeakRef(storage)

    def watch(self, memories: Iterable[int]) -> None:
        """Whether an operator of the forward pass reads them is asked for."""
        self._watched = set(memories)

    def loss(self, losses: Iterable[torch.Tensor]) -> None:
        """They are about to be derived."""
        for each in losses:
            self._loss |= self._made_of.get(memory_of(plain(each)), 0)

    # --- what the step asks ---

    def is_of_leaves(self, tensor: torch.Tensor) -> bool:
        """Whether a parameter, or another leaf, has had a part in its values."""
        memory = memory_of(tensor)
        return bool(self._made_of.get(memory, 0) or self._bit_of.get(memory, 0))

    def reaches_loss(self, parameter: torch.Tensor) -> bool:
        return bool(self._loss & self._bit_of.get(memory_of(parameter), 0))

    def cut_of(self, parameter: torch.Tensor) -> Cut | None:
        """Where the way from `parameter` to the loss is cut first. An index or a mask is named
        only if there is nothing else.
        """
        bit = self._bit_of.get(memory_of(parameter), 0)
        cuts = [
            each for each in self._cuts.values() if each.parameters & bit and self._loss & each.bit
        ]
        return min(cuts, key=lambda each: (each.whole_numbers, each.bit), default=None)

    def zero_of(self, gradient: torch.Tensor) -> Cut | None:
        """The operator that made a gradient 0 everywhere out of values that are not."""
        self._compared.settle()
        return next(iter(self._zeros.get(memory_of(gradient), ())), None)

    def is_old(self, gradient: torch.Tensor) -> bool:
        """Whether a backward pass has added to what an optimizer has used already."""
        memory = memory_of(gradient)
        if memory not in self._old:
            return False
        self._compared.settle()
        return memory in self._old and memory in self._added

    # --- operators ---

    def saw(
        self,
        operator: Operator,
        site: Site | None,
        backward: bool,
        args: Any,
        kwargs: dict[str, Any],
        result: Any,
        slot_of: Callable[[torch.Tensor], int],
    ) -> None:
        """`site`: None for what makes no values. `backward`: autograd runs it. `slot_of`: where the
        comparison of a tensor of the operator is, NONE.
        """
        inputs = list(tensors_of(list(args))) + list(tensors_of(list(kwargs.values())))
        written = list(tensors_of(list(operator.written_values(args, kwargs))))
        read = {memory_of(each) for each in inputs}
        fresh = [each for each in tensors_of(result) if memory_of(each) not in read]
        for each in fresh:
            self._forget(memory_of(each))
        if site is None or operator.kind is SKIP:
            return
        if self._watched and site.phase in ("forward", "loss", "data"):
            for memory in read & self._watched:
                self.used.setdefault(memory, site)
        for each in written:
            self._wrote(operator, each, backward, slot_of)
        if backward:
            if operator.kind is not VIEW:
                nothing = any(type(each) is float and each == 0 for each in args)
                self._gradients(site, inputs, fresh, written, nothing and len(inputs) == 1, slot_of)
            return
        if operator.kind is VIEW:
            if operator.schema_name == "aten::detach" and inputs and inputs[0].requires_grad:
                self._detached.setdefault(memory_of(inputs[0]), site)
            return
        if operator.is_list:  # each of its tensors depends on its own ones only
            return
        made_of, carried, needs = self._united(site, inputs)
        for each in (*fresh, *written):
            memory = memory_of(each)
            whole = each.numel() * each.element_size() >= each.untyped_storage().nbytes()
            if memory in read and not (operator.overwrites and whole):
                made_of |= self._made_of.get(memory, 0)
                carried |= self._carried.get(memory, 0)
            self._made_of[memory], self._carried[memory] = made_of, carried
            self._maker[memory] = site
            if needs:
                self._dark.discard(memory)
            else:
                self._dark.add(memory)

    def _forget(self, memory: int) -> None:
        """It is new: what was known belonged to another one."""
        for known in (self._made_of, self._carried, self._detached, self._maker, self._zeros):
            known.pop(memory, None)
        self._dark.discard(memory)

    def _leaf(self, memory: int) -> int:
        known = self._bit_of.get(memory)
        if known is None:
            known = self._bit_of[memory] = 1 << next(self._bits)
        return known

    def _united(self, site: Site, inputs: list[torch.Tensor]) -> tuple[int, int, bool]:
        """What an operator's result is made of, what a gradient would come to through it, and
        whether it needs one.
        """
        made_of = carried = 0
        needs = False
        enabled = torch.is_grad_enabled()
        for each in inputs:
            if not each.numel():
                continue
            memory = memory_of(each)
            own = self._bit_of.get(memory, 0)
            if each.requires_grad and each.is_leaf and not own:
                own = self._leaf(memory)
                self.leaves[memory] = each
            made_of |= self._made_of.get(memory, 0) | own
            reachable = self._carried.get(memory, 0) | own
            if each.requires_grad and memory in self._dark and not each.is_leaf:
                # Made by a function with a backward pass of its own.
                reachable = self._made_of.get(memory, 0) | own
            if each.requires_grad and enabled:
                carried |= reachable
                needs = True
            elif reachable:
                made_of |= self._cut(site, each, memory, reachable)
        return made_of, carried, needs

    def _cut(self, site: Site, tensor: torch.Tensor, memory: int, lost: int) -> int:
        whole_numbers = not is_float(tensor)
        if not tensor.requires_grad:  # else gradients are disabled here
            maker = self._maker.get(memory) if whole_numbers else None
            site = maker or self._detached.get(memory) or site
        cut = self._known_cut(site, whole_numbers)
        if cut is None:
            return 0
        cut.parameters |= lost
        return cut.bit

    def _known_cut(self, site: Site, whole_numbers: bool) -> Cut | None:
        cut = self._cuts.get(site.key)
        if cut is None and len(self._cuts) < MOST_CUTS:
            cut = self._cuts[site.key] = Cut(site, 1 << next(self._bits), whole_numbers)
        return cut

    # --- gradients ---

    def _wrote(
        self,
        operator: Operator,
        tensor: torch.Tensor,
        backward: bool,
        slot_of: Callable[[torch.Tensor], int],
    ) -> None:
        memory = memory_of(tensor)
        if memory in self._old:
            if operator.overwrites:
                self._compared.write(self._old.pop, memory, None)
            else:
                self._compared.write(self._added_to, self._value(tensor, slot_of), backward)
        if memory in self._bit_of and not backward:
            self.moved.add(memory)

    def _added_to(self, value: _Value, backward: bool) -> None:
        """A gradient that was used was changed: zeroed, or used as a buffer again."""
        if self._is_zero(value):
            self._old.pop(value.memory, None)
        elif backward:
            self._added.add(value.memory)

    @staticmethod
    def _value(tensor: torch.Tensor, slot_of: Callable[[torch.Tensor], int]) -> _Value:
        if not is_float(tensor):
            return _Value(memory_of(tensor), NONE, None)
        slot = slot_of(tensor)
        here = slot == NONE and on_host(tensor)
        return _Value(memory_of(tensor), slot, tensor if here else None)

    def _is_zero(self, value: _Value) -> bool:
        found = None if value.slot == NONE else self._compared.figures(value.slot)
        if found is None:
            return value.tensor is not None and is_zero(value.tensor)
        return found.max_held == 0 and not found.bad

    def _largest(self, value: _Value) -> float:
        found = None if value.slot == NONE else self._compared.figures(value.slot)
        if found is not None:
            return found.max_held
        if value.tensor is None or not value.tensor.numel():
            return 0.0
        return float(widened(value.tensor).abs().max())

    def _gradients(
        self,
        site: Site,
        inputs: list[torch.Tensor],
        fresh: list[torch.Tensor],
        written: list[torch.Tensor],
        weighted: bool,
        slot_of: Callable[[torch.Tensor], int],
    ) -> None:
        """An operator of the backward pass: does it make zeros of what is not 0? `weighted`: its
        other argument is the number 0, as the weight of a loss that comes in later.
        """
        floats = [each for each in inputs if is_float(each)]
        floats = [each for each in floats if each.dim()] or floats  # beside them a constant 0
        # Made of the gradient alone: of no mask, no value of the forward pass.
        alone = len({memory_of(one) for one in inputs}) == 1
        read = [self._value(one, slot_of) for one in floats]
        for each in (*fresh, *written):
            made = self._value(each, slot_of)
            self._compared.write(self._made, site, made, read, alone, weighted)

    def _made(
        self, site: Site, made: _Value, inputs: list[_Value], alone: bool, weighted: bool
    ) -> None:
        if not self._is_zero(made):
            self._zeros.pop(made.memory, None)
            return
        known = [self._zeros[one.memory] for one in inputs if one.memory in self._zeros]
        if known:
            self._zeros[made.memory] = tuple(cut for cuts in known for cut in cuts)[:1]
        elif weighted or any(self._is_zero(one) for one in inputs) or not inputs:
            self._zeros[made.memory] = ()  # of a state that is 0, which may change
        else:
            largest = max((self._largest(one) for one in inputs), default=0.0)
            self._zeros[made.memory] = (Cut(site, 0, False, always=alone, largest=largest),)


def feeds(call: Call, dependencies: Dependencies) -> Iterator[int]:
    """Where data (a batch, labels, a mask) meets what is trained, what is wrong there is learned
    from, whatever the loss is. `call` is about to run: which of its operands are such data. Data is
    what no parameter has had a part in: the output of a teacher, or of the model itself, is none.
    """
    learns = torch.is_grad_enabled() and any(each.held.requires_grad for each in call.inputs)
    name = call.operator.schema_name.removeprefix("aten::").removeprefix("_foreach_").rstrip("_")
    for at, each in enumerate(call.operands):
        if not each.read or (each.held.numel() == 1 and name in _ADD):
            continue  # what a number that is added changes shows in the result
        if learns:
            if not each.held.requires_grad and not dependencies.is_of_leaves(each.held):
                yield at
        elif name in _SCALE and is_constant(each.node):
            yield at


def is_constant(node: Node | None) -> bool:
    """Whether what `node` made comes of numbers alone that the program has written down or had
    computed before: a decay, a weight, a table of them.
    """
    above, seen = [node], 0
    while above:
        made = above.pop()
        seen += 1
        if made is None or made.args is None or seen > MOST_NODES:
            return False
        if made.site.phase == "backward":
            return False
        above += [held.producer for held in made.inputs() if held.memory != LASTING]
    return True
