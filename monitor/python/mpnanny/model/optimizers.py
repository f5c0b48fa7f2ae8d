"""Which watched parameters each optimizer holds."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn


class Watched:
    """Watched parameters and their layers, in the order of the model's definition, which the core
    takes for the order of the forward pass.
    """

    def __init__(self, parameters: list[nn.Parameter], layers: list[int]) -> None:
        self.parameters = parameters
        self.layers = layers
        self.ids = frozenset(map(id, parameters))
        self.sharded = any(type(parameter).__name__ == "DTensor" for parameter in parameters)

    def among(self, ids: Iterable[int]) -> Watched:
        """Those of them whose id is in `ids`."""
        ids = ids if isinstance(ids, (set, frozenset)) else set(ids)
        return self._where([id(parameter) in ids for parameter in self.parameters])

    def without(self, ids: set[int]) -> Watched:
        return self._where([id(parameter) not in ids for parameter in self.parameters])

    def _where(self, chosen: list[bool]) -> Watched:
        return Watched(
            [p for p, yes in zip(self.parameters, chosen, strict=True) if yes],
            [layer for layer, yes in zip(self.layers, chosen, strict=True) if yes],
        )


class Optimizers:
    """The optimizers of one model. Every one that holds a parameter of it counts; one of them, the
    main one, ends a training step: the one that was given, or the first that was heard.
    """

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

    def know(self, watched: Watched, all_ids: set[int]) -> None:
        """The parameters of the model as it is now."""
        self._watched, self._all_ids = watched, all_ids
        self._held.clear()

    def held(self, optimizer: Any) -> Watched | None:
        """The watched parameters that `optimizer` holds; None if it is another model's."""
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        known = self._held.get(optimizer)
        if known is not None and known[0] == count:
            return known[1]
        ids = _ids(optimizer)
        if not ids <= self._all_ids:  # another model's, or this one's that were replaced
            self._look_again()
        held = self._watched.among(ids) if ids & self._all_ids else None
        self._held[optimizer] = (count, held)
        if held is not None and (self.main is None or ids & _ids(self.main)):
            self.main = optimizer  # a new one for the same parameters takes over
        return held

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


def _ids(optimizer: Any) -> set[int]:
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
