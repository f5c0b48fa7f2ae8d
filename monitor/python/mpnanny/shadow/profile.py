"""What each layer makes of its values in a shadow step: the error of what leaves it, and what other
formats would make of that.

A value leaves a layer where an operator of another one takes it. So it is the layer's output that
counts, and in the backward pass the gradient that goes on to the layers before it: not the
gradients of weights, and not the last operator's statistics. Of a layer that runs several times the
worst is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from .. import _core
from ..fp64.call import Call
from ..fp64.comparison import Comparison
from ..fp64.history import Node
from ..fp64.operators import COMPLEX
from ..fp64.places import Site

MOST_VALUES = 8  # of a layer and a phase, whose formats are measured in a step
MOST_FROM_DEVICE = 16384  # elements of a tensor that come to the host for it
FORWARD, BACKWARD = 0, 1


class FormatErrors(NamedTuple):
    """numerics/format_error.h: FormatErrors."""

    numel: int
    finite: int
    absmax: float
    rms: float
    fp16: float
    bf16: float
    e4m3: float
    e5m2: float
    e4m3_scale: int
    e5m2_scale: int
    fp16_overflow: int
    fp16_underflow: int

    @property
    def figures(self) -> tuple[float, ...]:
        """As in the table: errors of FP16, BF16, E4M3, E5M2, shares of overflow and underflow."""
        shares = (self.fp16_overflow / self.numel, self.fp16_underflow / self.numel)
        return (self.fp16, self.bf16, self.e4m3, self.e5m2, *shares)


@dataclass(slots=True)
class LayerProfile:
    """Of one layer in one phase. Errors are relative, in the L2 norm, against the reference."""

    operators: int = 0
    dtype: torch.dtype = torch.float32
    error: float = 0.0
    error_in: float = 0.0
    absmax: float = 0.0  # of all results
    rms: float = 0.0
    values: int = 0  # that have left it
    formats: tuple[float | None, ...] = (None,) * 6

    @property
    def amplification(self) -> float | None:
        found = self.error / self.error_in if self.error_in > 0 else math.inf
        return found if math.isfinite(found) else None


class Profile:
    """Of one step."""

    def __init__(self) -> None:
        self.layers: dict[tuple[str, int], LayerProfile] = {}  # by module and phase
        self._measured: set[tuple[int, int]] = set()

    def enters(self, call: Call) -> None:
        """An operator is about to run: what it takes from other layers leaves these."""
        own = _key(call.site)
        for each in call.inputs:
            from_outside = each.node is None or _key(each.node.site) != own
            if own is not None and from_outside and math.isfinite(each.error):
                layer = self._layer(own)
                layer.error_in = max(layer.error_in, each.error)
            self.takes(call.site, each.held.dtype, each.reference, each.node, each.error)

    def takes(
        self,
        site: Site,
        dtype: torch.dtype,
        reference: torch.Tensor,
        node: Node | None,
        error: float,
    ) -> None:
        """An operator at `site` takes a value that `node` has made, with this `error`."""
        key = None if node is None else _key(node.site)
        if node is None or key is None or not _leaves(node.site, site):
            return
        value = (node.number, int(reference.storage_offset()))
        if value in self._measured:
            return
        self._measured.add(value)
        layer = self._layer(key)
        layer.values += 1
        layer.error = error if layer.values == 1 else max(layer.error, error)
        layer.dtype = dtype
        if layer.values <= MOST_VALUES:
            self._measure(layer, reference)

    def made(self, site: Site, dtype: torch.dtype, found: Comparison) -> None:
        """An operator's result was compared."""
        key = _key(site)
        if key is None:
            return
        layer = self._layer(key)
        layer.operators += 1
        layer.absmax = max(layer.absmax, found.max_reference)
        if not layer.values:  # until something leaves the layer, its newest result
            layer.dtype = dtype
            layer.error = found.error
            layer.rms = math.sqrt(found.squared_reference / max(1, found.numel))

    def _layer(self, key: tuple[str, int]) -> LayerProfile:
        layer = self.layers.get(key)
        if layer is None:
            layer = self.layers[key] = LayerProfile()
        return layer

    def _measure(self, layer: LayerProfile, reference: torch.Tensor) -> None:
        found = format_errors(reference)
        if found is None or not found.finite:
            return
        layer.rms = found.rms if layer.values == 1 else max(layer.rms, found.rms)
        layer.formats = tuple(map(_worse, layer.formats, found.figures))


def _key(site: Site) -> tuple[str, int] | None:
    if site.module is None or site.phase not in ("forward", "backward"):
        return None
    return site.module, BACKWARD if site.phase == "backward" else FORWARD


def _leaves(source: Site, target: Site) -> bool:
    """Whether a value goes on from one layer to another: not to the layer's own backward pass, and
    not to where gradients of weights are collected.
    """
    if source.phase == "forward":
        return target.phase == "loss" or (
            target.phase == "forward" and target.module != source.module
        )
    is_collected = target.module is None and not target.file
    return target.phase == "backward" and target.module != source.module and not is_collected


def _worse(known: float | None, new: float) -> float | None:
    if not math.isfinite(new):
        return known
    return new if known is None else max(known, new)


def format_errors(reference: torch.Tensor) -> FormatErrors | None:
    """None where it cannot be read."""
    reference = reference.detach()
    if reference.dtype in COMPLEX:
        reference = torch.view_as_real(reference.resolve_conj())
    reference = reference.resolve_neg()
    if reference.device.type != "cpu":
        reference = _spread(reference).cpu()
    figures: Any = _core.format_errors(reference)
    return None if figures is None else FormatErrors(*figures)


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    """MOST_FROM_DEVICE elements, one of each of as many equal stretches."""
    flat = tensor.reshape(-1)
    if flat.numel() <= MOST_FROM_DEVICE:
        return flat
    at = torch.arange(MOST_FROM_DEVICE, dtype=torch.float64, device=flat.device)
    at += (at * 0.6180339887498949).frac()  # where in its stretch
    return flat[(at * (flat.numel() / MOST_FROM_DEVICE)).long().clamp(max=flat.numel() - 1)]
