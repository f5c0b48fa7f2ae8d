"""Where what a step follows ends: which operators have references."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from ..fp64.call import floats
from ..fp64.operators import Operator
from ..fp64.places import Site
from .scope import Scope, unit_of
from .tape import Tape


class Followed:
    """Of one step. `restarts` gets what had to be left out."""

    def __init__(self, tape: Tape, restarts: Counter[str]) -> None:
        self.scope: Scope | None = None  # None: everything
        self.most_elements: float = math.inf  # of a tensor
        self.sizes: Counter[str] = Counter()  # bytes of references that each unit (scope) made
        self._references = tape.references
        self._tape = tape
        self._restarts = restarts
        self._counted = 0

    @property
    def history(self) -> bool:
        """Whether references go on from one operator to the next."""
        return self.scope is None or self.scope.history

    def count(self, site: Site) -> None:
        """The references that were made since the last call are those of an operator at `site`."""
        self.sizes[unit_of(site)] += self._references.made_bytes - self._counted
        self._counted = self._references.made_bytes

    def takes(
        self, operator: Operator, site: Site, args: Any, kwargs: dict[str, Any], most_bytes: int
    ) -> bool:
        """Whether the operator that is about to run is followed. References end in others."""
        if self.is_too_large((args, kwargs)):
            self._end_in(operator, args, kwargs)
            return False
        scope = self.scope
        if scope is None:
            return True
        chosen = scope.follows(site)
        if chosen and scope.history:
            return True
        tensors = list(floats((args, kwargs)))
        if chosen:
            self._references.clear()
            if sum(each.numel() for each in tensors) * 8 <= most_bytes:
                return True
            self._restarts["too large"] += 1
            return False
        if site.phase == "backward" and site.module is None and not site.file:
            # Where gradients are collected: those of the layers that are followed.
            if all(self._references.entry(each) is not None for each in tensors):
                return True
        for tensor in tensors:
            self._tape.leaves(tensor, site)
        self._end_in(operator, args, kwargs)
        return False

    def is_too_large(self, values: Any) -> bool:
        if self.most_elements == math.inf:
            return False
        return any(each.numel() > self.most_elements for each in floats(values))

    def _end_in(self, operator: Operator, args: Any, kwargs: dict[str, Any]) -> None:
        """What the operator writes has no reference any more."""
        for tensor in floats(list(operator.written_values(args, kwargs))):
            self._references.forget(tensor)
