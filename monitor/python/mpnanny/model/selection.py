"""Watched parameters: all of them, or those of one optimizer."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from .shards import is_sharded


class Watched:
    """Watched parameters and their layers, in the order of the model's definition, which the core
    takes for the order of the forward pass.
    """

    def __init__(self, parameters: list[nn.Parameter], layers: list[int]) -> None:
        self.parameters = parameters
        self.layers = layers
        self.ids = frozenset(map(id, parameters))
        self.sharded = any(is_sharded(type(parameter)) for parameter in parameters)

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
