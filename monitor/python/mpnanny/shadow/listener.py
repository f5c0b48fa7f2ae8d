"""Shadow steps as a part of a run: hands what happens to the ShadowSession, and what that finds to
the core.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from ..base.alerts import NewAlert
from ..fp64.findings import CameIn, Finding
from ..fp64.places import Site, find_call
from ..model.selection import Watched
from ..operators.modes import OTHERS_ON, ModeStack, compiles, lies_above
from ..steps.context import RunContext
from ..steps.listeners import StepListener
from ..steps.reading import tensors
from ..steps.step import OpenStep
from . import prelude
from .eager import Eager
from .finding_rows import FindingRows
from .schedule import Schedule, parse
from .scope import OPTIMIZER, OUTSIDE, Scope, Scopes
from .session import ShadowSession
from .step import ShadowStep

MOST_FINDINGS = 20  # of a step
MOST_NAMES = 16  # of the layers that a step followed

_NOT_FINITE = frozenset(("NAN", "INF", "LOSS_NAN"))  # types of alerts


class ShadowSteps(StepListener):
    """Of one run."""

    name = "shadow steps"

    def __init__(self, run: RunContext, stack: ModeStack, asked: str) -> None:
        self._core = run.core
        self._model = run.model
        self._names = run.names
        self._record = run.record
        self._notes = run.notes
        self._stack = stack
        wanted = parse(asked)
        self._schedule = Schedule(wanted)
        self._scopes = Scopes(wanted.layers)
        self._eager = Eager() if wanted.eager else None
        self._rows = FindingRows(run.core, run.names, run.record)
        self._loss: float | None = None
        self._closure_looked_at = False  # in the optimizer's step under way
        self._session: ShadowSession | None = None
        if wanted.mode != "off":
            self._session = ShadowSession(
                run.model.module,
                self._schedule,
                self,
                self,
                self._states,
                lambda error: run.notes.trouble(self.name, error),
                prelude.take(),
            )
        else:
            prelude.end()

    # --- torch's stack of modes ---

    def push(self, mode: Any) -> bool:
        eager = self._eager
        why = self._stack.refusal(eager is not None)
        why = why or ("" if eager is None else eager.refusal())
        if why:
            self.refused(why)
            return False
        if eager is not None:
            eager.begin()
        return self._stack.push(mode, eager is not None)

    def remove(self, mode: Any) -> None:
        self._stack.remove(mode)
        if self._eager is not None:
            self._eager.end()

    def leave(self, mode: Any, thread: int) -> None:
        self._stack.leave(mode, thread)
        if self._eager is not None:
            self._eager.end()

    def usable(self) -> bool:
        eager = self._eager
        if eager is not None and eager.refusal():
            return False
        return not self._stack.unusable(eager is not None)

    def holds(self, mode: Any) -> bool:
        return self._stack.holds(mode)

    def refused(self, why: str) -> None:
        self._notes.note(f"no shadow steps{' while ' if why == OTHERS_ON else ': '}{why}")

    # --- what happens ---

    def expect(self, steps: int) -> None:
        """The training will have so many steps."""
        self._schedule.expect(steps)

    def watch_begins(self) -> None:
        if self._session is not None:
            self._session.start()

    def step_begins(self, step: OpenStep) -> None:
        if self._session is not None:
            self._session.begins(step.number)

    def step_moved(self, step: OpenStep) -> None:
        if self._session is not None:
            self._session.moved()

    def model_runs(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        if self._session is not None:
            first = next(model.parameters(), None)
            device = first.device.type if first is not None else "cpu"
            self._session.model_runs(args, kwargs, device)

    def model_evaluates(self) -> None:
        if self._session is not None:
            self._session.model_evaluates()

    def model_ran(self, output: Any, failed: bool) -> None:
        if self._session is not None and not failed:
            self._session.model_ran(output)

    def module_broke(
        self, layer: int, module: nn.Module, args: Any, kwargs: Any, output: Any, first: bool
    ) -> None:
        if self._session is not None:
            self._session.module_broke(module, args, kwargs, output)

    def backward_begins(self, step: OpenStep, losses: Any) -> None:
        if self._session is not None:
            self._session.backward_begins(list(tensors(losses)))

    def loss_scaled(self, step: OpenStep, scaler: Any, outputs: Any, scaled: Any) -> None:
        if self._session is not None:
            self._session.loss_scaled(scaler, list(tensors(scaled)))

    def gradients_read(self, step: OpenStep, bad: bool) -> None:
        session = self._session
        if session is None or session.shadowing or not session.watches_failures:
            return
        if bad and not step.uses_scaler:
            session.gradients_broke()

    def optimizer_begins(
        self, step: OpenStep, optimizer: Any, held: Watched, closure: bool
    ) -> None:
        self._closure_looked_at = False
        if not closure:
            self._look_at_gradients(optimizer)

    def closure_begins(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        if self._session is not None:
            self._session.closure_begins()

    def closure_ended(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        """The gradients of its first call are those of the weights that the step began with."""
        if self._session is not None and self._closure_looked_at:
            self._session.closure_ended()
        elif self._session is not None:
            self._closure_looked_at = True
            self._look_at_gradients(optimizer)

    def _look_at_gradients(self, optimizer: Any) -> None:
        if self._session is not None:
            self._session.optimizer_begins(optimizer, self._parameters(optimizer))

    def optimizer_ended(self, step: OpenStep, optimizer: Any, held: Watched) -> None:
        if self._session is not None:
            place = find_call(None, {})
            site = None
            if place.file:
                site = Site("optimizer.step", "", "optimizer", place.file, place.line, None)
            self._session.optimizer_ended(optimizer, site)

    def scaler_stepped(self, step: OpenStep, scaler: Any, optimizer: Any, skipped: Any) -> None:
        if self._session is None:
            return
        scale = step.scale_now if isinstance(step.scale_now, float) else math.inf
        if skipped is True:
            self._session.skipped(self._parameters(optimizer), scale)
        elif math.isfinite(scale):
            self._session.updated(scale)

    def step_ends(self, step: OpenStep) -> None:
        if self._session is not None:
            self._session.over()

    def step_ended(self, step: OpenStep, alerts: list[NewAlert]) -> None:
        if self._session is None:
            return
        if any(alert.severity == "WARNING" and not alert.of_shadow for alert in alerts):
            self._session.drift()

    def errors_raised(self, alerts: Sequence[NewAlert]) -> None:
        if self._session is None:
            return
        bad = [alert.step for alert in alerts if alert.type in _NOT_FINITE]
        if bad:
            self._session.broke(min(bad))
        if not all(alert.of_shadow for alert in alerts):
            self._session.error()

    def compile_begins(self) -> None:
        if self._eager is not None:
            return
        session, self._session = self._session, None
        if session is not None:
            session.close()
            self._notes.note("no shadow steps any more: torch.compile is in use")

    def mode_enters(self, mode: Any) -> None:
        if self._session is not None and lies_above(mode) and self._session.interrupted():
            self.refused(OTHERS_ON)

    def run_ends(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def forked(self) -> None:
        if self._eager is not None:
            self._eager.end()
        session, self._session = self._session, None
        if session is not None:
            session.forget()

    def is_kept(self, weight: torch.Tensor) -> bool:
        """Whether nothing gets lost where this weight stays as it is (Changes.is_kept)."""
        return self._session is not None and self._session.is_kept(weight)

    # --- what the session asks for ---

    def _parameters(self, optimizer: Any) -> list[tuple[str, torch.Tensor]]:
        named = {id(each): name for name, each in self._model.module.named_parameters()}
        return [
            (named.get(id(each), ""), each)
            for group in optimizer.param_groups
            for each in group["params"]
        ]

    def _states(self) -> Iterable[tuple[str, torch.Tensor]]:
        yield from self._model.module.named_buffers()

    # --- what the session finds ---

    def begins(self, step: ShadowStep, most_bytes: int) -> None:
        step.mode.followed.scope = self._scopes.begin(most_bytes)

    def shadowed(self, step: ShadowStep, why: str, seconds: float) -> None:
        mode = step.mode
        detail = {"restarts": dict(mode.restarts), "own_seconds": round(mode.seconds, 6)}
        detail |= self._followed(mode.followed.scope)
        if mode.replay is not None:
            detail["replayed"] = mode.replay.replayed
            detail["not_replayed"] = [
                [why, count] for why, count in sorted(mode.replay.left_out.items())
            ]
        if why != "rerun":
            detail["covered"] = mode.coverage.figures(self._record.layer)
            if self._eager is not None and compiles():
                detail["eager"] = True
        self._core.shadow_step(
            step.number,
            why,
            seconds,
            self._schedule.plain_seconds,
            mode.operators,
            mode.tape.judge.compared,
            sum(mode.restarts.values()),
            mode.references.most_bytes,
            json.dumps(detail),
        )

        if why == "rerun":
            return
        note = self._scopes.ended(
            mode.followed.scope,
            mode.followed.sizes,
            mode.references.most_bytes,
            mode.restarts["memory"] > 0,
        )
        if note is not None:
            self._notes.note(note)
        for module, phase, row in mode.tape.profiles():
            number = self._names.find(module)
            if number is not None:
                self._core.shadow_profile(step.number, number, phase, *row)

    def _followed(self, scope: Scope | None) -> dict[str, Any]:
        if scope is None:
            return {"mode": "history"}
        followed = [
            unit if unit in (OPTIMIZER, OUTSIDE) else self._record.layer(unit)
            for unit in sorted(scope.followed)[:MOST_NAMES]
        ]
        return {
            "mode": "history" if scope.history else "operator",
            "followed": followed,
            "left_out": len(scope.left_out),  # layers, the optimizer, what is outside of layers
        }

    @property
    def rounds_weights(self) -> CameIn | None:
        """What rounds weights between the optimizer's steps, if a shadow step has seen it."""
        return None if self._session is None else self._session.rounds_weights

    def home_of(self, tensor: torch.Tensor) -> Site | None:
        """Where a tensor of 16 bits or fewer was allocated, if that was followed."""
        return None if self._session is None else self._session.home_of(tensor)

    def found(self, step: int, findings: list[Finding]) -> None:
        for each in findings[:MOST_FINDINGS]:
            self._rows.write(step, each)
