"""One pass of a model with some units low, held against the pass in FP32: how far outputs, loss and
gradients are off.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ..operators.places import pass_through
from ..programs.policy import Policy, full_precision
from ..programs.problem import Problem
from ..programs.program import Attempt, Program
from .assignment import Assignment, Borders
from .draws import same_draws

pass_through(__file__)

# A gradient whose norm is a smaller share of the norm of all gradients cannot be what sets the
# direction of a step: the bias before a normalisation, whose gradient is rounding alone.
SMALL_SHARE = 1e-3
# One gradient among many may be so many times as wrong as all of them together: in twelve healthy
# models that train in BF16 as in FP32 it was 1.4 to 14 times (docs/choose_precision.md).
WORST_OF_MANY = 3.0
_BACK_OFF = 16.0  # of the loss scale, as four steps of a GradScaler in a row


@dataclass(slots=True)
class Pass:
    """What one pass gave, on the CPU in FP64."""

    outputs: dict[str, torch.Tensor] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    loss: float | None = None


@dataclass(slots=True)
class Effect:
    """Relative errors (L2 norm) against FP32; inf where values are not finite that are finite in
    FP32, or where the code stops (`raised`). `gradient`: of all gradients as one vector;
    `worst_gradient`: of the worst of those that are not negligibly small, `worst_name`. `scale`: of
    the loss.
    """

    output: float = 0.0
    loss: float | None = None
    gradient: float | None = None
    worst_gradient: float | None = None
    worst_name: str = ""
    nonfinite: int = 0
    raised: str = ""
    scale: float = 1.0

    @property
    def error(self) -> float:
        """The largest of all, the worst gradient's by its smaller weight."""
        known = [self.output, self.loss, self.gradient]
        if self.worst_gradient is not None:
            known.append(self.worst_gradient / WORST_OF_MANY)
        return max(each for each in known if each is not None)


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor).item())


def _relative(held: torch.Tensor, reference: torch.Tensor) -> tuple[float, int]:
    finite = reference.isfinite()
    bad = int((~held.isfinite() & finite).sum().item())
    if bad:
        return math.inf, bad
    size = _norm(torch.where(finite, reference, 0.0))
    error = _norm(torch.where(finite, held - reference, 0.0))
    if error == 0.0:
        return 0.0, 0
    return (error / size if size > 0 else math.inf), 0


def compare_passes(held: Pass, reference: Pass) -> Effect:
    """`held` against `reference`."""
    effect = Effect()
    for name, expected in reference.outputs.items():
        error, bad = _relative(held.outputs[name], expected)
        effect.output = max(effect.output, error)
        effect.nonfinite += bad
    if held.loss is not None and reference.loss is not None and math.isfinite(reference.loss):
        off = abs(held.loss - reference.loss)
        effect.loss = math.inf if math.isnan(off) else off / (abs(reference.loss) or 1.0)
    if not reference.gradients:
        return effect
    norms = {name: _norm(each) for name, each in reference.gradients.items()}
    total = math.sqrt(sum(each**2 for each in norms.values() if math.isfinite(each)))
    squared = 0.0
    effect.worst_gradient = 0.0
    for name, expected in reference.gradients.items():
        found = held.gradients.get(name)
        if found is None or not math.isfinite(norms[name]):
            continue
        error, bad = _relative(found, expected)
        effect.nonfinite += bad
        squared += math.inf if bad else _norm(found - expected) ** 2
        if (bad or norms[name] > SMALL_SHARE * total) and error > effect.worst_gradient:
            effect.worst_gradient, effect.worst_name = error, name
    effect.gradient = math.sqrt(squared) / total if total > 0 else 0.0
    return effect


class Trials:
    """Runs `program` as often as is asked, from the same beginning each time. It is one copy of the
    model, whose buffers are put back. Use inside `installed()`.
    """

    def __init__(self, program: Program, policy: Policy, base: str) -> None:
        self._program = program
        self._policy = policy
        self._base = base
        self.borders = Borders()
        self._attempt: Attempt = program.attempt(None)
        assert self._attempt.module is not None  # choose_precision refuses anything else
        self.model = self._attempt.module
        self._buffers = [(each, each.detach().clone()) for each in self.model.buffers()]
        self.low = policy.low
        self.device = program.options.device
        # Of the loss, by the units that are low.
        self.scale_for: Callable[[Collection[str]], float] = lambda low_units: 1.0
        self.passes = 0
        self.say: Callable[[], None] = lambda: None  # before each pass
        self.reference = self.full()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """The operator lists of the policy are in force."""
        with self._policy.installed():
            yield

    def full(self) -> Pass:
        """In FP32."""
        with full_precision(self.device):
            return self._pass(contextlib.nullcontext, 1.0)

    def run(self, low_units: Collection[str], bf16_units: Collection[str] = ()) -> Effect:
        """With `low_units` in the low dtype. The first call has to be with all units."""
        assignment = Assignment(
            self.model,
            low_units,
            self.low,
            self._base,
            self.borders,
            self.device,
            bf16_units,
        )
        self._policy.is_eight_bit = lambda: assignment.is_eight_bit
        scale = self.scale_for(low_units)
        try:
            effect = self._effect(assignment, scale)
            while effect.nonfinite and math.isfinite(effect.output) and scale > 1:
                scale = max(1.0, scale / _BACK_OFF)
                effect = self._effect(assignment, scale)
        except Problem:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            return Effect(output=math.inf, raised=text)
        finally:
            assignment.detach()
        return effect

    def _effect(self, assignment: Assignment, scale: float) -> Effect:
        effect = compare_passes(self._pass(assignment.region, scale), self.reference)
        effect.scale = scale
        return effect

    def _pass(self, region: Any, scale: float) -> Pass:
        self.passes += 1
        self.say()
        for buffer, was in self._buffers:
            if buffer.numel():
                buffer.data.copy_(was)
        attempt = self._attempt
        with same_draws(self.device):  # of checkpoints in backward as well
            self._program.forward(attempt, region)
            made = Pass(
                {name: _kept(each) for name, each in attempt.outputs if each.is_floating_point()}
            )
            if attempt.loss is not None:
                made.loss = float(attempt.loss.detach().to(torch.float64).item())
            if self._program.derives(attempt):
                self._program.backward(attempt, scale)
                for name, leaf in attempt.leaves:
                    if leaf.grad is not None:
                        made.gradients[name] = _kept(leaf.grad) / scale
                        leaf.grad = None
        attempt.outputs, attempt.loss = [], None
        return made


def _kept(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", torch.float64, copy=True)


def worse(effects: Mapping[str, Effect]) -> list[str]:
    """Names, the largest error first."""
    return sorted(effects, key=lambda name: -effects[name].error)
