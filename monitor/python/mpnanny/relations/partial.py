"""Copies of a network of which only a part follows it: the parameters of an average or a teacher
move towards the network's, its buffers (running statistics) stay as they were and are used.

Looked at in shadow steps, where every operator that reads such a buffer is seen. A copy is a module
of the same names and shapes that no optimizer holds.
"""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import nn

from ..fp64.dependencies import memory_of
from ..fp64.findings import PARTIAL_COPY, Finding
from ..fp64.places import Site
from ..model.samples import is_readable, row
from ..model.weights import held_and_owned
from .shadowed_step import ShadowedStep
from .watcher import fault

NEEDED = 3  # shadow steps in which the buffers were used
SEARCHES = (0, 3, 8, 20)  # in which shadow steps all modules of the process are looked through
FAR = 0.2  # of the network's buffers: how far the copy's are from them
MOST_WEIGHTS = 12
NUMBERS = 64  # of each
MOST_NAMES = 16


@dataclass(slots=True)
class _Copy:
    network: weakref.ref[nn.Module]
    copied: weakref.ref[nn.Module]
    buffers: dict[str, torch.Tensor]  # of the copy, as it was found
    own: dict[str, torch.Tensor]  # of the network, then
    weights: torch.Tensor  # a few of the copy's, then
    used: set[int] = field(default_factory=set)  # shadow steps
    read: set[str] = field(default_factory=set)  # buffers that were used
    site: Site | None = None  # where
    said: bool = False


class PartialCopies:
    """Of one run. `begins()` and `found()` are called for each shadow step."""

    def __init__(self, model: weakref.ref[nn.Module]) -> None:
        self._model = model
        self._copies: list[_Copy] = []
        self._count = 0

    def begins(self, step: ShadowedStep) -> None:
        if self._count in SEARCHES:
            self._search()
        self._count += 1
        step.mode.dependencies.watch(
            memory_of(each) for copy in self._copies for each in _buffers(copy.copied()).values()
        )

    def found(self, step: ShadowedStep) -> Iterable[Finding]:
        used = step.mode.dependencies.used
        for copy in self._copies:
            network, copied = copy.network(), copy.copied()
            if network is None or copied is None or copy.said:
                continue
            now = _buffers(copied)
            read = [name for name, each in now.items() if memory_of(each) in used]
            if not read or copied.training:
                continue
            copy.used.add(step.number)
            copy.read.update(read)
            copy.site = copy.site or used[memory_of(now[read[0]])]
            if len(copy.used) >= NEEDED:
                yield from self._judge(copy, network, copied, now)

    def _judge(
        self, copy: _Copy, network: nn.Module, copied: nn.Module, now: dict[str, torch.Tensor]
    ) -> Iterable[Finding]:
        theirs = _buffers(network)
        if now.keys() != copy.buffers.keys() or now.keys() != theirs.keys():
            return
        moving = [name for name in now if name in copy.read]
        moving = [name for name in moving if not torch.equal(theirs[name], copy.own[name])]
        if not moving or not all(torch.equal(now[name], copy.buffers[name]) for name in moving):
            return
        weights, wanted = _weights(copied), _weights(network)
        if weights.shape != copy.weights.shape or weights.shape != wanted.shape:
            return
        moved = weights - copy.weights
        if not bool(moved.any()) or float(moved @ (wanted - copy.weights)) <= 0:
            return  # it is held as it is, or goes elsewhere
        off = math.sqrt(sum(float((now[n] - theirs[n]).double().square().sum()) for n in moving))
        size = math.sqrt(sum(float(theirs[n].double().square().sum()) for n in moving))
        if not math.isfinite(off + size) or off < FAR * size or size == 0:
            return
        copy.said = True
        yield fault(
            PARTIAL_COPY,
            copy.site or Site("", "", "forward", "", 0, None),
            "WARNING",
            min(1.0, off / size),
            parameters=moving[:MOST_NAMES],
            count=len(moving),
            steps=len(copy.used),
            share=min(1.0, off / size),
        )

    def _search(self) -> None:
        model = self._model()
        if model is None or not _buffers(model):
            return
        held, _ = held_and_owned()
        networks: dict[tuple[object, ...], nn.Module] = {}
        for each in model.modules():
            if any(id(one) in held for one in each.parameters()) and _buffers(each):
                networks.setdefault(_signature(each), each)
        known = {id(copy.copied()) for copy in self._copies}
        inside: set[int] = set()  # modules of a copy
        for each in sorted(_modules(), key=lambda one: -sum(1 for _ in one.modules())):
            network = networks.get(_signature(each))
            if network is None or id(each) in inside:
                continue
            if any(id(one) in held for one in each.parameters()):
                continue
            inside |= {id(one) for one in each.modules()}
            if id(each) not in known:
                self._copies.append(
                    _Copy(
                        weakref.ref(network),
                        weakref.ref(each),
                        {name: one.clone() for name, one in _buffers(each).items()},
                        {name: one.clone() for name, one in _buffers(network).items()},
                        _weights(each),
                    )
                )


def _modules() -> list[nn.Module]:
    """Those of the process that have both. type() and not isinstance(): that asks proxies."""
    found = [each for each in gc.get_objects() if issubclass(type(each), nn.Module)]
    return [each for each in found if "_parameters" in each.__dict__ and _signature(each)]


def _signature(module: nn.Module) -> tuple[object, ...]:
    """Names and shapes; empty where it has no parameters or no buffers."""
    parameters = [(name, tuple(each.shape)) for name, each in module.named_parameters()]
    buffers = [(name, tuple(each.shape)) for name, each in _buffers(module).items()]
    return (*parameters, "", *buffers) if parameters and buffers else ()


def _buffers(module: nn.Module | None) -> dict[str, torch.Tensor]:
    found = {} if module is None else dict(module.named_buffers())
    return {name: each.detach() for name, each in found.items() if is_readable(each)}


def _weights(module: nn.Module) -> torch.Tensor:
    weights = [each for each in module.parameters() if is_readable(each)]
    weights = sorted(weights, key=lambda each: -each.numel())[:MOST_WEIGHTS]
    rows = [row(each, NUMBERS).cpu() for each in weights]
    return torch.cat(rows) if rows else torch.zeros(0)
