"""Which watched parameters each optimizer holds."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .copies import Copies, find_copies
from .selection import Watched


class Optimizers:
    """The optimizers of one model. Every one that holds a parameter of it counts; one of them, the
    main one, ends a training step: the one that was given, or the first that was heard.
    """

    LOOKS = 4  # at what an optimizer holds, until it is another model's
    PATIENCE = 16  # steps of others without one of the main one, after which it is given up

    def __init__(self, main: Any, look_again: Callable[[], None]) -> None:
        self.main = main
        self._watched = Watched([], [])
        self._all_ids: set[int] = set()  # of the model, watched or not
        self._look_again = look_again  # may call know()
        self._held: weakref.WeakKeyDictionary[Any, tuple[int, Watched | None]] = (
            weakref.WeakKeyDictionary()
        )
        self._steps_of_others = 0
        self._copies: weakref.WeakKeyDictionary[Any, Copies] = weakref.WeakKeyDictionary()
        # Those whose copies have gradients of their own.
        self._given: weakref.WeakSet[Any] = weakref.WeakSet()
        self._looks: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def know(self, watched: Watched, all_ids: set[int]) -> None:
        """The parameters of the model as it is now."""
        self._watched, self._all_ids = watched, all_ids
        self._held.clear()
        self._copies.clear()
        self._given.clear()

    def held(self, optimizer: Any) -> Watched | None:
        """The watched parameters that `optimizer` holds; None if it is another model's."""
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        known = self._held.get(optimizer)
        if known is not None and known[0] == count:
            return known[1]
        ids = ids_of(optimizer)
        if not ids <= self._all_ids:  # another model's, or this one's that were replaced
            self._look_again()
        held = self._watched.among(ids) if ids & self._all_ids else None
        self._held[optimizer] = (count, held)
        if held is not None and (self.main is None or ids & ids_of(self.main)):
            self.main = optimizer  # a new one for the same parameters takes over
        return held

    def holds_some(self, optimizer: Any) -> bool:
        """Whether it holds a parameter of the model, or copies as is known. Changes nothing: for
        threads that may train something else.
        """
        if optimizer in self._copies:
            return True
        ids = self._all_ids
        return any(id(each) in ids for group in optimizer.param_groups for each in group["params"])

    def adopt(self, optimizer: Any) -> Watched | None:
        """The watched parameters of which `optimizer` holds copies, if it does: it is about to step
        after a backward pass of the model.
        """
        looks = self._looks[optimizer] = self._looks.get(optimizer, 0) + 1
        if looks > self.LOOKS:
            return None
        copies = find_copies(optimizer, self._watched)
        if copies is None:
            return None
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        self._copies[optimizer] = copies
        self._held[optimizer] = (count, copies.originals)
        if self.main is None:
            self.main = optimizer
        return copies.originals

    def has_copies(self, optimizer: Any) -> bool:
        """Whether it holds copies of the parameters: their own gradients stay as they are."""
        return optimizer in self._copies

    @property
    def main_uses_own_gradients(self) -> bool:
        """Whether the main one holds copies and is given the gradients of the parameters
        themselves, as far as its steps so far have shown.
        """
        return self.main in self._copies and self.main not in self._given

    def given(self, optimizer: Any) -> list[Any] | None:
        """The gradients of the copies that `optimizer` holds, in the order of held(); None where it
        holds the parameters, or its copies have no gradients.
        """
        copies = self._copies.get(optimizer)
        if copies is None or copies.moved is None or copies.moved is copies.originals:
            return None
        found = [each.grad for each in copies.moved.parameters]
        if all(each is None for each in found):
            return None
        self._given.add(optimizer)
        return found

    def gradient_of(self, optimizer: Any, parameter: Any) -> Any:
        """What `optimizer` is about to change `parameter` by; None where that is not known."""
        given = self.given(optimizer)
        if given is None:
            return None if self.has_copies(optimizer) else parameter.grad
        originals = self._copies[optimizer].originals.parameters
        at = next((at for at, each in enumerate(originals) if each is parameter), None)
        return None if at is None else given[at]

    def copied(self, ids: set[int]) -> list[tuple[Any, Watched]]:
        """The optimizers some of whose copies are in `ids`, with the parameters copied."""
        return [
            (optimizer, copies.originals)
            for optimizer, copies in list(self._copies.items())
            if copies.moved is not None
            and copies.moved is not copies.originals
            and not copies.moved.ids.isdisjoint(ids)
        ]

    def moved(self, optimizer: Any, held: Watched) -> Watched | None:
        """What its step changes of what it holds, `held`; None if that cannot be read."""
        copies = self._copies.get(optimizer)
        return held if copies is None else copies.moved

    def others(self) -> list[Watched]:
        """What the optimizers beside the main one hold."""
        return [
            held
            for optimizer, (_, held) in self._held.items()
            if held is not None and optimizer is not self.main
        ]

    def count_step(self, optimizer: Any) -> bool:
        """`optimizer` stepped; True if it is the main one."""
        if optimizer is self.main:
            self._steps_of_others = 0
            return True
        self._steps_of_others += 1
        if self._steps_of_others < self.PATIENCE:
            return False
        self.main, self._steps_of_others = optimizer, 0
        return True


def parameters_of(optimizer: Any) -> Iterator[Any]:
    """All that it holds."""
    return (each for group in optimizer.param_groups for each in group["params"])


def ids_of(optimizer: Any) -> set[int]:
    return set(map(id, parameters_of(optimizer)))
