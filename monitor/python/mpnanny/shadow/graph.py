"""The graph of a loss, read before backward() frees it: which operator of the loss made the first
value that is not finite.

Autograd keeps the inputs of most operators for their derivatives. From those the operator is computed
again, in its own type and in FP64: not finite in both means that no precision helps. The graph knows
no lines; they are remembered from the last shadow step, whose loss had a graph of the same shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from .findings import EXCLUDED, NOT_TESTED, PROVEN, RANGE, UNDEFINED, Cure, Finding
from .places import Site
from .references import widened

MOST_NODES = 4096


@dataclass(slots=True)
class _Step:
    """One node of the graph, in the order of a depth-first walk."""

    name: str
    site: Site | None


def _walk(losses: Iterable[torch.Tensor]) -> list[Any]:
    """The nodes behind `losses`, always in the same order for the same graph."""
    found: list[Any] = []
    seen: set[Any] = set()
    stack = [loss.grad_fn for loss in losses if loss.grad_fn is not None][::-1]
    while stack and len(found) < MOST_NODES:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        found.append(node)
        stack.extend(each for each, _ in reversed(node.next_functions) if each is not None)
    return found


def _snake(name: str) -> str:
    """The operator of a node: LogSoftmaxBackward0 -> log_softmax."""
    name = re.sub(r"Backward\d*$", "", name.rpartition("::")[2])
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class LossGraph:
    """Remembers where the operators of the loss stand."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []

    def remember(
        self, losses: Iterable[torch.Tensor], site_of: Callable[[int], Site | None]
    ) -> None:
        """In a shadow step. `site_of`: where the node with this sequence number was made."""
        self._steps = [_Step(node.name(), site_of(node._sequence_nr())) for node in _walk(losses)]

    def find(self, losses: Iterable[torch.Tensor]) -> Finding | None:
        """The operator whose inputs are finite and whose result is not; None where the graph does
        not show one.
        """
        nodes = _walk(losses)
        known = len(nodes) == len(self._steps)
        candidates = []
        for at, node in enumerate(nodes):
            made = _recompute(node)
            if made is None:
                continue
            name = node.name()
            site = None
            if at < len(self._steps) and self._steps[at].name == name:
                if known or all(
                    step.name == each.name()
                    for step, each in zip(self._steps[:at], nodes[:at], strict=False)
                ):
                    site = self._steps[at].site
            candidates.append(self._finding(node, site, made))
        # The last in the walk is the farthest from the loss, so the first to have run.
        return candidates[-1] if candidates else None

    def _finding(self, node: Any, site: Site | None, made: _Made) -> Finding:
        if site is None:
            site = Site(made.operator, made.operator, "loss", "", 0, None)
        finding = Finding(
            kind=RANGE if made.finite_in_reference else UNDEFINED,
            site=site,
            number=0,
            dtype=made.dtype,
            shape=made.shape,
            share=made.share,
            magnitude=made.magnitude,
            error_in=0.0,
            error_out=float("inf"),
            precision=EXCLUDED if not made.finite_in_reference else NOT_TESTED,
            severity="ERROR",
        )
        if made.finite_in_reference:
            finding.precision = PROVEN
            finding.cure = Cure(
                [site.source] if site.source else [],
                [made.operator],
                made.cured_in,
                float("inf"),
                0.0,
            )
        finding.reach["loss", ""] = float("inf")
        finding.detail["read_from"] = f"the graph of the loss: {node.name()}"
        return finding


@dataclass(slots=True)
class _Made:
    operator: str
    dtype: str
    shape: str
    share: float
    magnitude: float
    finite_in_reference: bool
    cured_in: str


def _recompute(node: Any) -> _Made | None:
    """The node's operator on its saved inputs, where that makes something that is not finite out of
    what is.
    """
    packet = getattr(torch.ops.aten, _snake(node.name()), None)
    if packet is None:
        return None
    saved: dict[str, Any] = {}
    for name in dir(node):
        if name.startswith("_saved_"):
            try:
                saved[name[7:]] = getattr(node, name)
            except RuntimeError:  # freed, or changed since
                return None
    tensors = [each for each in saved.values() if isinstance(each, torch.Tensor)]
    result = saved.get("result")
    inputs = {key: value for key, value in saved.items() if key not in ("result", "output", "mask")}
    held = [each for each in inputs.values() if isinstance(each, torch.Tensor)]
    if any(each.is_floating_point() and not _harmless(each) for each in held):
        return None  # what went in was bad already
    if isinstance(result, torch.Tensor) and not held:  # exp and softmax keep their result only
        return None
    if not tensors:
        return None
    for overload_name in packet.overloads():
        overload = getattr(packet, overload_name)
        made = _call(overload, inputs)
        if made is not None:
            return made if made.share > 0 else None
    return None


def _harmless(tensor: torch.Tensor) -> bool:
    """Finite, or with the -inf of a mask and nothing worse."""
    return bool((tensor.isfinite() | (tensor == float("-inf"))).all())


def _call(overload: Any, inputs: dict[str, Any]) -> _Made | None:
    arguments = []
    reference = []
    shapes = [v for v in inputs.values() if isinstance(v, torch.Tensor)]
    used = 0
    for argument in overload._schema.arguments:
        if argument.kwarg_only:
            break
        value = inputs.get(argument.name)
        is_tensor = str(argument.type) == "Tensor"
        if value is None and is_tensor and shapes:
            like = next((each for each in shapes if each.is_floating_point()), None)
            if like is None:
                return None
            value = torch.ones((), dtype=like.dtype, device=like.device)  # it was not kept
        elif value is None and argument.has_default_value():
            value = argument.default_value
        elif value is None:
            return None
        if is_tensor != isinstance(value, torch.Tensor):
            return None
        used += argument.name in inputs
        arguments.append(value)
        floats = isinstance(value, torch.Tensor) and value.is_floating_point()
        reference.append(widened(value) if floats else value)
    if not used:
        return None
    try:
        with torch.no_grad():
            result, exact = overload(*arguments), overload(*reference)
    except Exception:
        return None
    result = result[0] if isinstance(result, tuple) else result
    exact = exact[0] if isinstance(exact, tuple) else exact
    if not isinstance(result, torch.Tensor) or not result.is_floating_point():
        return None
    bad = ~result.isfinite()
    finite = exact.isfinite()
    magnitude = exact[finite].abs().max().item() if bool(finite.any()) else 0.0
    return _Made(
        operator=str(overload).removesuffix(".default"),
        dtype=str(result.dtype)[6:],
        shape=str(list(result.shape)),
        share=bad.sum().item() / max(1, bad.numel()),
        magnitude=magnitude,
        finite_in_reference=bool(finite[bad].all()) if bool(bad.any()) else True,
        cured_in="float64" if result.dtype is torch.float32 else "float32",
    )
