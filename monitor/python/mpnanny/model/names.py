"""The layers that the core knows, by its numbers."""

from __future__ import annotations

from typing import Any

from ..base.record import Record


class LayerNames:
    """Of one run. `core`: whose add_layer() takes new ones before the first step only."""

    def __init__(self, core: Any, record: Record) -> None:
        self._core = core
        self._record = record
        self._names: dict[int, str] = {}
        self._sources: dict[int, str] = {}

    def add(self, name: str, kind: str, source: str, numel: int, leaf: bool) -> int:
        """The number of a layer that is new; 0 if the core takes no more."""
        layer: int = self._core.add_layer(
            self._record.layer(name), kind, self._record.source(source), numel, leaf
        )
        if layer:
            self._names[layer] = name
            self._sources[layer] = source
        return layer

    def add_operator(self, layer: int, name: str) -> None:
        """The core has made a layer of an operator."""
        self._names[layer] = name

    def name(self, layer: int | None) -> str | None:
        return None if layer is None else self._names.get(layer)

    def source(self, layer: int) -> str:
        return self._sources.get(layer, "")

    def find(self, name: str) -> int | None:
        return next((layer for layer, each in self._names.items() if each == name), None)
