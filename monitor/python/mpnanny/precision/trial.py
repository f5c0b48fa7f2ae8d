"""Plans tried in training: FP32, FP32 once more with other draws (the noise that two runs in one
precision have anyway), the plan, and where it has FP32 islands also everything in the low format.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from ..diff.answer import number
from ..fp64.call import floats
from ..operators.places import pass_through
from ..programs.policy import Policy, full_precision
from ..programs.problem import Problem
from ..programs.program import SEED, Attempt, Program, Region
from ..programs.specification import values_of
from .assignment import Assignment
from .batches import Batches
from .candidates import Candidate
from .effect import Trials
from .tf32 import tf32_products

pass_through(__file__)

# Relative difference of the final loss from FP32's: up to the first acceptable (type 1), beyond the
# second not (type 2). docs/compare_runs.md has the same two limits.
ACCEPTABLE, NOT_ACCEPTABLE = 0.01, 0.05
STALL = 0.1  # of the way that FP32's loss goes
# Of it, below which both losses have come to nothing, and their ratio is that of what is left.
LEARNT = 0.01
LEAST_STEPS = 20  # below it nothing is said
MOST_SHOWN = 100  # losses of a run in the answer
_ORDERS = 64  # batches whose order the noise run changes
_ROUNDING = 2.0**-20  # by which the noise run's first weights differ

Say = Callable[[float, str], None]


@dataclass(slots=True)
class Curve:
    """Losses of one training. `skipped`: steps that the loss scaler left out; `raised`: how it
    broke off.
    """

    losses: list[float] = field(default_factory=list)
    skipped: int = 0
    scale: float | None = None
    raised: str = ""

    @property
    def final(self) -> float:
        """Mean of the last tenth, of 3 steps at least."""
        return mean(self.losses[-max(3, len(self.losses) // 10) :]) if self.losses else math.nan

    def json(self) -> dict[str, Any]:
        every = max(1, math.ceil(len(self.losses) / MOST_SHOWN))
        shown: dict[str, Any] = {
            "final": number(self.final),
            "losses": [number(each) for each in self.losses[::every]],
        }
        if self.skipped:
            shown["skipped_steps"] = self.skipped
        if self.scale is not None:
            shown["loss_scale"] = self.scale
        if self.raised:
            shown["raised"] = self.raised
        return shown


@dataclass(slots=True)
class Judgement:
    """`verdict`: type_1, type_2 or not_established; `reason`: a code. `difference`: of the final
    losses, relative, positive where the run is worse.
    """

    verdict: str
    reason: str
    difference: float | None = None


@dataclass(slots=True)
class Trial:
    """`noise`: by how much FP32 differs from itself (relative)."""

    steps: int
    fp32: Curve
    other: Curve
    plan: Curve
    judgement: Judgement
    noise: float
    all_low: Curve | None = None
    all_low_judgement: Judgement | None = None
    own_data: bool = False
    own_loss: bool = True

    @property
    def refutes(self) -> bool:
        """Whether the plan trains otherwise than FP32."""
        return self.judgement.verdict == "type_2"

    def summary(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "verdict": self.judgement.verdict,
            "reason": self.judgement.reason,
            "difference": number(self.judgement.difference),
            "noise": number(self.noise),
            "final": number(self.plan.final),
            "final_fp32": number(self.fp32.final),
            "raised": self.plan.raised,
        }

    def json(self) -> dict[str, Any]:
        every = max(1, math.ceil(self.steps / MOST_SHOWN))
        shown: dict[str, Any] = self.summary() | {
            "shown_every": every,
            "fp32": self.fp32.json(),
            "fp32_other_draws": self.other.json(),
            "plan": self.plan.json(),
            "limits": [],
        }
        if self.all_low is not None and self.all_low_judgement is not None:
            shown["all_low"] = self.all_low.json() | {
                "verdict": self.all_low_judgement.verdict,
                "reason": self.all_low_judgement.reason,
                "difference": number(self.all_low_judgement.difference),
                "final_fp32": number(self.fp32.final),
            }
        if not self.own_data:
            shown["limits"].append("same_batch_every_step")
        if not self.own_loss:
            shown["limits"].append("loss_is_mean_square_of_output")
        return shown


def judge(run: Curve, reference: Curve, noise: float) -> Judgement:
    """`run` against `reference` (FP32)."""
    if any(not math.isfinite(each) for each in reference.losses):
        return Judgement("not_established", "fp32_not_finite")
    if run.raised:
        return Judgement("type_2", "raised")
    if any(not math.isfinite(each) for each in run.losses):
        return Judgement("type_2", "not_finite")
    way = reference.losses[0] - reference.final
    # A loss that has come to nearly nothing is measured by the way that it went.
    size = max(abs(reference.final), 0.001 * abs(way)) or 1.0
    difference = (run.final - reference.final) / size
    if len(reference.losses) < LEAST_STEPS:
        return Judgement("not_established", "too_few_steps", difference)
    if way > 0 and difference > noise and run.losses[0] - run.final < STALL * way:
        return Judgement("type_2", "stall", difference)
    apart = abs(
        difference
    )  # a loss far below FP32's is of another function, not of a better training
    if apart <= ACCEPTABLE:
        return Judgement("type_1", "within_limit", difference)
    if apart <= noise:
        return Judgement(
            "type_1" if apart <= NOT_ACCEPTABLE else "not_established",
            "within_noise",
            difference,
        )
    if max(abs(run.final), abs(reference.final)) < LEARNT * way:
        return Judgement("not_established", "both_learnt", difference)
    if apart > NOT_ACCEPTABLE:
        return Judgement("type_2", "beyond_limit" if difference > 0 else "below_limit", difference)
    return Judgement("not_established", "between_limits", difference)


class Trainings:
    """Trains copies of the program's model for `steps` steps with the optimizer of its options.
    `batches(step)` gives the inputs of a step as `sample` has them. FP32 is trained once, whatever
    is tried.
    """

    def __init__(
        self,
        program: Program,
        steps: int,
        batches: Batches | None,
        say: Say = lambda done, what: None,
    ) -> None:
        self._training = _Training(program, steps, batches)
        self._program = program
        self._steps = steps
        self._own_data = batches is not None
        say(0.0, "training in FP32")
        self._plain = self._training.in_fp32(noise=False)
        say(0.25, "training in FP32, other draws")
        self._other = self._training.in_fp32(noise=True)
        self._noise = _noise(self._plain, self._other)
        self._say = say
        self._done = 0.25  # of all; each plan takes half of what is left

    def try_plan(self, chosen: Candidate) -> Trial:
        training, plain = self._training, self._plain
        self._done = (1 + self._done) / 2
        self._say(self._done, f"training the plan {chosen.way.name}")
        if chosen.way.precision == "fp32":
            plan, whole = plain, None
        elif chosen.way.precision == "tf32":
            with full_precision(self._program.options.device), tf32_products():
                plan, whole = training.run(lambda attempt: contextlib.nullcontext, None), None
        else:
            plan, whole = training.in_plan(chosen, lambda what: self._say(self._done, what))
        return Trial(
            self._steps,
            plain,
            self._other,
            plan,
            judge(plan, plain, self._noise),
            self._noise,
            whole,
            None if whole is None else judge(whole, plain, self._noise),
            own_data=self._own_data,
            own_loss=training.own_loss,
        )


def _noise(plain: Curve, other: Curve) -> float:
    size = abs(plain.final) or 1.0
    off = abs(other.final - plain.final) / size
    return off if math.isfinite(off) else 0.0


class _Training:
    def __init__(self, program: Program, steps: int, batches: Batches | None) -> None:
        if steps < 1:
            raise Problem(f"{steps} steps are none.", "Give `try` a number such as 200.")
        self._program = program
        self._steps = steps
        self._batches = batches
        self.own_loss = True

    def in_fp32(self, noise: bool) -> Curve:
        with full_precision(self._program.options.device):
            return self.run(lambda attempt: contextlib.nullcontext, None, noise)

    def in_plan(self, chosen: Candidate, say: Callable[[str], None]) -> tuple[Curve, Curve | None]:
        program, way = self._program, chosen.way
        name = "pure" if way.base == "pure" else "cuda-autocast"
        policy = Policy(name, way.precision, program.options.device)
        with policy.installed():
            trials = Trials(program, policy, way.base)
            everything = [name for name, _ in trials.model.named_modules()] + [
                "(outside of modules)"
            ]
            eight_bit = way.base == "fp8"
            if eight_bit:
                trials.run((), everything)
            else:
                trials.run(everything)
            scale = chosen.scaling.initial if chosen.scaling else None
            interval = chosen.scaling.growth_interval if chosen.scaling else 2000

            def region_for(wide: list[str], left_out: list[str]) -> Callable[[Attempt], Region]:
                low = [unit for unit in everything if unit not in wide]
                eight = [unit for unit in low if unit not in left_out] if eight_bit else low

                def make(attempt: Attempt) -> Region:
                    assert attempt.module is not None
                    assignment = Assignment(
                        attempt.module,
                        eight,
                        policy.low,
                        way.base,
                        trials.borders,
                        trials.device,
                        low if eight_bit else (),
                    )
                    policy.is_eight_bit = lambda: assignment.is_eight_bit
                    return assignment.region

                return make

            plan = self.run(region_for(chosen.islands, chosen.fp8_left_out), scale, False, interval)
            whole = None
            if chosen.islands or chosen.fp8_left_out:
                say("training without islands")
                whole = self.run(region_for([], []), scale, False, interval)
        return plan, whole

    def run(
        self,
        region_for: Callable[[Attempt], Region],
        scale: float | None,
        noise: bool = False,
        interval: int = 2000,
    ) -> Curve:
        program = self._program
        attempt = program.attempt(None)
        module = attempt.module
        if module is None:
            raise Problem("Training steps need a model.", "Give `model` instead of a function.")
        if noise:
            _move(module)
        optimizer = program.optimizer(attempt)
        scaler = torch.amp.GradScaler(
            program.options.device,
            init_scale=scale or 1.0,
            growth_interval=interval,
            enabled=scale is not None,
        )
        region = region_for(attempt)
        curve = Curve()
        order = torch.randperm(_ORDERS, generator=torch.Generator().manual_seed(SEED)).tolist()
        for step in range(self._steps):
            at = step - step % _ORDERS + order[step % _ORDERS] if noise else step
            try:
                loss = self._step(
                    attempt, module, region, at, SEED + step + (10**6 if noise else 0)
                )
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                before = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
            except Problem:
                raise
            except Exception as error:
                curve.raised = f"{type(error).__name__}: {error}".splitlines()[0][:300]
                break
            curve.skipped += scaler.get_scale() < before
            curve.losses.append(float(loss.detach().item()))
            if not math.isfinite(curve.losses[-1]) and scale is None:
                break
        curve.scale = scaler.get_scale() if scale is not None else None
        return curve

    def _step(self, attempt: Attempt, module: nn.Module, region: Region, at: int, seed: int) -> Any:
        program = self._program
        if self._batches is not None:
            attempt.args, attempt.kwargs = [], {}
            torch.manual_seed(seed)  # what it draws is the same in each training
            for value in values_of(self._batches(at)):
                placed = tree_map(program.placed, value.value)
                if value.name:
                    attempt.kwargs[value.name] = placed
                else:
                    attempt.args.append(placed)
            program.part(attempt)
        torch.manual_seed(seed)
        with region():
            result = module(*attempt.args, **attempt.kwargs)
            made = program.loss_of(attempt, result)
            if made is None:
                self.own_loss = False
                made = next(floats(result)).float().square().mean()
        return made


def _move(module: nn.Module) -> None:
    """Weights of another rounding: what this does to the loss is what any rounding may do."""
    draw = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for each in module.parameters():
            noise = torch.randn(each.shape, generator=draw, dtype=torch.float64)
            each.mul_(1 + _ROUNDING * noise.to(each.device, each.dtype))
