"""What the parts of a run hear of a training, in which order; modes of several kinds at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import Mlp, batch, cross_entropy
from mpnanny import MixedPrecisionNanny, watch_model
from mpnanny.hooks import taps
from mpnanny.operators import modes
from mpnanny.steps.listeners import EVENTS, StepListener, StepListeners
from mpnanny.steps.modes import StepModes
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

SELDOM = {"gradients_read", "output_pending", "scaler_used"}


class Heard(StepListener):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.values: dict[str, tuple[Any, ...]] = {}

    def __getattribute__(self, name: str) -> Any:
        if name not in EVENTS:
            return super().__getattribute__(name)

        def hear(*values: Any) -> None:
            self.events.append(name)
            self.values[name] = values

        return hear


for event in EVENTS:  # so that it counts as having each
    setattr(Heard, event, lambda self, *_: None)


def heard(nanny: MixedPrecisionNanny) -> Heard:
    part = Heard()
    nanny._session.events.add(part)
    return part


def test_a_step_with_a_scaler_is_heard_in_the_order_of_the_calls(db):
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    nanny = MixedPrecisionNanny(model, optimizer, scaler, db=db, quiet=True)
    part = heard(nanny)
    with nanny.step(0):
        loss = cross_entropy(model(batch()[0]), batch()[1])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    optimizer.load_state_dict(optimizer.state_dict())
    model.eval()(batch()[0])
    nanny.close()
    assert [event for event in part.events if event not in SELDOM] == [
        "step_begins",
        "model_runs",
        "model_ran",
        "loss_scaled",
        "backward_begins",
        "backward_ended",
        "gradients_unscaled",
        "gradients_clipped",
        "scaler_steps",
        "optimizer_begins",
        "optimizer_ended",
        "scaler_stepped",
        "scale_updated",
        "block_left",
        "step_ends",
        "step_ended",
        "state_loaded",
        "model_evaluates",
        "model_ran",
        "run_ends",
    ]
    step, given, outputs, scaled = part.values["loss_scaled"]
    assert step.number == 0 and given is scaler and outputs is loss and scaled.item() == 8 * loss
    assert part.values["scaler_stepped"][3] is False


def test_what_breaks_is_heard_with_its_call_and_the_alerts_follow(db):
    model = Mlp()
    seen = []
    nanny = MixedPrecisionNanny(model, db=db, quiet=True, on_alert=seen.append)
    part = heard(nanny)

    class Adding(StepListener):
        def step_ended(self, step, alerts):
            alerts[0].message += " (and more)"

    nanny._session.events.add(Adding())
    with torch.no_grad():
        model.middle.weight[0, 0] = torch.inf
    x, y = batch()
    with nanny.step(3):
        cross_entropy(model(x), y).backward()
    nanny.close()
    assert part.events.count("module_broke") >= 1
    broke = part.events.index("module_broke")
    assert "module_broke" not in part.events[:broke] and part.events[broke - 1] == "model_runs"
    (errors,) = part.values["errors_raised"]
    assert {each.severity for each in errors} == {"ERROR"} and errors[0].step == 3
    assert seen[0].message.endswith(" (and more)")


# What taps hear that is no event of a step by itself.
OF_TAPS_ALONE = {
    *("gradients", "derived_again", "function_begins", "function_ended"),
    *("scale_updates", "zeroed"),
}


def test_an_event_has_the_same_name_where_torch_is_heard():
    calls = {name for name in vars(taps.Listener) if name.startswith("heard_")}
    assert {name.removeprefix("heard_") for name in calls} - OF_TAPS_ALONE <= set(EVENTS)
    assert len(calls) > len(OF_TAPS_ALONE)


@pytest.mark.parametrize("bad", [False, True])
def test_who_reads_gradients_hears_whether_they_are_finite(db, bad):
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    nanny = MixedPrecisionNanny(model, optimizer, db=db, quiet=True)
    part = heard(nanny)
    for _ in range(2):
        cross_entropy(model(batch()[0]), batch()[1]).backward()
        if bad:
            model.middle.weight.grad[0, 0] = torch.nan
        optimizer.step()
    nanny.close()
    assert part.values["gradients_read"][1] is bad


def test_a_part_that_fails_fails_alone(db, database):
    class Broken(StepListener):
        name = "a broken part"

        def step_begins(self, step):
            raise ValueError("inside")

    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    nanny = watch_model(model, db=db, quiet=True)
    nanny._session.events.add(Broken())
    part = heard(nanny)
    for _ in range(2):
        cross_entropy(model(batch()[0]), batch()[1]).backward()
        optimizer.step()
    nanny.close()
    assert part.events.count("step_ended") == 2
    (event,) = database().rows("SELECT detail FROM event WHERE type = 'hook_failed'")
    assert "a broken part" in event["detail"] and "inside" in event["detail"]


def test_only_events_that_a_part_has_are_called():
    part = Heard()
    events = StepListeners(lambda where, error: pytest.fail(f"{where}: {error}"))
    events.add(StepListener(), part)
    events.run_ends()
    assert part.events == ["run_ends"]


class Counting(modes.StepMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators = 0
        self.why: list[str] = []

    def refused(self, why: str) -> None:
        self.why.append(why)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators += self.looking
        return func(*args, **(kwargs or {}))


class Other(Counting):
    pass


class Theirs(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Using(StepListener):
    """Gives each step two modes, of two kinds."""

    def __init__(self, stack: StepModes) -> None:
        self.stack = stack
        self.modes: list[Counting] = []

    def step_begins(self, step):
        for mode in (Counting(), Other()):
            self.modes.append(mode)
            self.stack.use(mode, step)


@pytest.mark.parametrize("blocks", [True, False])
def test_modes_of_two_kinds_share_the_brackets_of_a_step(db, blocks):
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    nanny = watch_model(model, db=db, quiet=True)
    part = Using(nanny._session.modes)
    nanny._session.events.add(part)
    depth, lengths = torch._C._len_torch_dispatch_stack, []
    optimizer.register_step_pre_hook(lambda *_: lengths.append(depth()))
    for number in range(2):
        block = nanny.step(number).__enter__() if blocks else None
        loss = cross_entropy(model(batch()[0]), batch()[1])
        lengths.append(depth())
        loss.backward()
        lengths.append(depth())
        optimizer.step()
        if block:
            block.__exit__(None, None, None)
        lengths.append(depth())
    nanny.close()
    assert lengths == [2, 2 if blocks else 0, 2, 0] * 2
    assert len(part.modes) == 4 and not any(mode.looking for mode in part.modes)
    first, second, *_ = (mode.operators for mode in part.modes)
    assert first == second > 20
    assert not any(mode.why for mode in part.modes)


def test_modes_are_refused_on_a_stack_of_the_programs(db):
    model = Mlp()
    nanny = watch_model(model, db=db, quiet=True)
    part = Using(nanny._session.modes)
    nanny._session.events.add(part)
    with Theirs():
        with nanny.step(0):
            assert torch._C._len_torch_dispatch_stack() == 1
            model(batch()[0])
    nanny.close()
    assert {why for mode in part.modes for why in mode.why} == {
        "a dispatch mode of the program is on"
    }


def test_a_mode_of_another_kind_may_be_on_for_longer(db):
    """As one from optimizer step to optimizer step would be: below those of the steps."""
    longer = OperatorCount()
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    nanny = watch_model(model, db=db, quiet=True)
    session = nanny._session
    assert session.mode_stack.push(longer)
    session.tracing.trace_next()
    for _ in range(2):
        cross_entropy(model(batch()[0]), batch()[1]).backward()
        optimizer.step()
    assert session.mode_stack.holds(longer) and longer.operators > 20
    session.mode_stack.remove(longer)
    nanny.close()
    assert torch._C._len_torch_dispatch_stack() == 0
    assert nanny.summary()["notes"] == []


class OperatorCount(TorchDispatchMode):
    operators = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators += 1
        return func(*args, **(kwargs or {}))
