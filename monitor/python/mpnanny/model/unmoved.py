"""Buffers, and parameters that no optimizer moved in a step: what of them has changed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .names import LayerNames
from .parts import FoundBuffer, Selector, find_buffers
from .selection import Watched

ALWAYS_READ = 4096  # elements


class Unmoved:
    """Read in sampled steps, the large ones when they were written to since: masks, tables and a
    frozen model are read once. `watched`: whether weights are watched at all.
    """

    def __init__(self, names: LayerNames, watched: bool) -> None:
        self._names = names
        self._watched = watched
        self._buffers: dict[str, tuple[int, FoundBuffer]] = {}
        self._seen: dict[int, tuple[int, int]] = {}  # layer -> id and version of what was read

    def follow(self, model: nn.Module, selectors: list[Selector] | None) -> None:
        """Takes the model's buffers as they are now; new names before the first step only."""
        if not self._watched:
            return
        known, self._buffers = self._buffers, {}
        for found in find_buffers(model, selectors):
            layer = known[found.name][0] if found.name in known else 0
            layer = layer or self._names.add(found.name, "buffer", found.source, found.numel, False)
            if layer:
                self._buffers[found.name] = (layer, found)

    def read(self, parameters: Watched, reader: Any) -> None:
        """At the end of a sampled step: gives `reader` the buffers, and `parameters`, which were
        not read in it.
        """
        if not self._watched:
            return
        layers: list[int] = []
        tensors: list[torch.Tensor] = []
        pairs = [(layer, found.tensor()) for layer, found in self._buffers.values()]
        pairs += list(zip(parameters.layers, parameters.parameters, strict=True))
        for layer, tensor in pairs:
            if tensor is None or tensor.is_inference():
                continue
            # Batch normalisation writes its statistics without counting a version.
            now = (id(tensor), tensor._version)
            if tensor.numel() <= ALWAYS_READ or self._seen.get(layer) != now:
                self._seen[layer] = now
                layers.append(layer)
                tensors.append(tensor)
        if tensors:
            reader.weights(layers, tensors)
