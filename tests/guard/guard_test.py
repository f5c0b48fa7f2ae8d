"""PrecisionGuard over real trainings: those that fail end as in FP32, those that do not stay bit
for bit as they are; and what it does by itself.
"""

from __future__ import annotations

import json
import math
import sqlite3
import types

import evaluate
import pytest
import torch
import trainings
from mpnanny import MixedPrecisionNanny, PrecisionGuard
from torch import nn


@pytest.fixture(scope="module")
def in_fp32():
    losses = {}
    for name, of in trainings.FAILING.items():
        _, model, _, _ = evaluate.train(of, low=False, guarded=False)
        losses[name] = evaluate.held_out(model, of)
    return losses


@pytest.mark.parametrize("name", trainings.FAILING)
def test_a_training_that_fails_ends_as_in_fp32(name, in_fp32):
    of = trainings.FAILING[name]
    low, low_model, _, _ = evaluate.train(of, low=True, guarded=False)
    failed = evaluate.held_out(low_model, of)
    assert not failed < 2 * in_fp32[name] or any(not math.isfinite(each) for each in low)
    losses, model, guard, left_out = evaluate.train(of, low=True, guarded=True)
    # A batch that is left out is missing: FP32 alone moves by up to 4 % without the first one.
    _, same, _, _ = evaluate.train(of, low=False, guarded=False, without=left_out)
    # A gain and outliers scatter by 3 to 4 % in FP32 itself, when first weights move by 2^-11.
    limit = 1.05 if name in ("a gain that grows", "batches that do not fit") else 1.02
    assert len(left_out) < 12
    in_fp32_at_worst = max(in_fp32[name], evaluate.held_out(same, of))
    assert evaluate.held_out(model, of) <= limit * in_fp32_at_worst
    assert guard.islands == ["part"]
    assert all(math.isfinite(each) for each in losses[-20:])


@pytest.mark.parametrize("name", trainings.HEALTHY)
def test_with_nothing_to_do_no_bit_changes(name):
    of = trainings.HEALTHY[name]
    plain, plain_model, _, _ = evaluate.train(of, low=True, guarded=False)
    kept, model, guard, _ = evaluate.train(of, low=True, guarded=True, snapshot_every=30)
    assert guard.changes == [] and guard.islands == []
    assert plain == kept
    for exact, held in zip(
        plain_model.state_dict().values(), model.state_dict().values(), strict=True
    ):
        assert exact.equal(held)
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())


class Scaled(nn.Module):
    """Its results are as large as `factor` says; a parameter-free part of a model."""

    factor = 1.0

    def forward(self, x):
        return x * self.factor


def steps(model, guard, optimizer, count, dtype=torch.float16):
    for _ in range(count):
        with guard.step():
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype):
                loss = model(torch.ones(4, 8)).float().mean()
            loss.backward()
            optimizer.step()


def small(**options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), Scaled(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    guard = PrecisionGuard(model, optimizer, every=1, quiet=True, **options)
    return model, optimizer, guard


def test_a_module_goes_back_once_it_has_been_calm_for_long_and_later_only_after_twice_as_long():
    model, optimizer, guard = small(calm_steps=10)
    model[1].factor = 1e5
    steps(model, guard, optimizer, 2)
    assert guard.islands[0] == "1"
    model[1].factor = 1.0
    steps(model, guard, optimizer, 9)
    assert "1" in guard.islands
    steps(model, guard, optimizer, 5)
    assert "1" not in guard.islands
    gone = [each.step for each in guard.changes if (each.kind, each.module) == ("low", "1")]
    assert len(gone) == 1
    model[1].factor = 1e5
    steps(model, guard, optimizer, 1)
    model[1].factor = 1.0
    steps(model, guard, optimizer, 15)
    assert "1" in guard.islands
    steps(model, guard, optimizer, 10)
    assert "1" not in guard.islands


def test_what_is_near_the_end_goes_before_it_breaks():
    model, optimizer, guard = small(most_modules=1.0)
    model[1].factor = 30_000.0
    steps(model, guard, optimizer, 3)
    assert "1" in guard.islands
    assert {each.kind for each in guard.changes} == {"fp32"}, guard.changes
    assert "gives" in guard.changes[0].reason


def test_no_more_than_the_limit():
    model, optimizer, guard = small(most_modules=0.0)
    model[0].weight.data.fill_(1e6)
    model[1].factor = 1e5
    steps(model, guard, optimizer, 5)
    assert len(guard.islands) == 1
    assert [each.kind for each in guard.changes].count("limit") == 1


def test_data_that_are_not_finite_are_no_fault_of_the_format():
    model, optimizer, guard = small()
    before = [each.detach().clone() for each in model.parameters()]
    with guard.step():
        with torch.autocast("cpu", torch.float16):
            loss = model(torch.full((4, 8), math.nan)).float().mean()
        loss.backward()
        optimizer.step()
    assert guard.islands == []
    assert [each.kind for each in guard.changes] == ["skipped"]
    assert all(each.equal(was) for each, was in zip(model.parameters(), before, strict=True))


def test_the_state_of_some_steps_ago_is_put_back():
    model, optimizer, guard = small(snapshot_every=2)
    steps(model, guard, optimizer, 5)
    with torch.no_grad():
        model[0].weight[0, 0] = math.nan
    steps(model, guard, optimizer, 1)
    assert [each.kind for each in guard.changes][-1] == "rolled_back"
    assert all(each.isfinite().all() for each in model.parameters())


def test_a_training_that_is_resumed_goes_on_as_it_was():
    model, optimizer, guard = small()
    model[1].factor = 1e5
    steps(model, guard, optimizer, 4)
    state = json.loads(json.dumps(guard.state_dict()))
    other, other_optimizer, resumed = small()
    other[1].factor = 1e5
    other.load_state_dict(model.state_dict())
    resumed.load_state_dict(state)
    assert resumed.islands == guard.islands and resumed.changes == guard.changes
    with torch.autocast("cpu", torch.float16):
        assert other(torch.ones(4, 8)).equal(model(torch.ones(4, 8)))
    with pytest.raises(KeyError, match="no module 'gone'"):
        resumed.load_state_dict(state | {"islands": {"gone": {"since": 1}}})
    del other_optimizer


def test_each_change_is_an_event_of_the_run(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), Scaled(), nn.Linear(8, 2))
    model[1].factor = 1e5
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    seen = []
    guard = PrecisionGuard(model, optimizer, every=1, quiet=True, on_change=seen.append)
    nanny = MixedPrecisionNanny(
        model, optimizer, db=tmp_path / "run.db", quiet=True, shadow="off", on_alert=guard.alert
    )
    guard.nanny = nanny
    steps(model, guard, optimizer, 3)
    nanny.close()
    rows = sqlite3.connect(tmp_path / "run.db").execute(
        "SELECT detail FROM event WHERE type='precision_guard'"
    )
    details = [json.loads(detail) for (detail,) in rows]
    assert [each["kind"] for each in details] == [each.kind for each in seen]
    assert ("fp32", "1") in [(each["kind"], each["module"]) for each in details]


def test_a_layer_that_an_error_names_goes_into_fp32():
    model, optimizer, guard = small()
    steps(model, guard, optimizer, 2)
    guard.alert(types.SimpleNamespace(severity="WARNING", type="INF", layer="0"))
    guard.alert(types.SimpleNamespace(severity="ERROR", type="INF", layer="not there"))
    guard.alert(types.SimpleNamespace(severity="ERROR", type="INF", layer="2"))
    steps(model, guard, optimizer, 1)
    assert guard.islands == ["2"]
    assert guard.changes[0].reason == "alert INF"


def test_an_exception_in_a_step_goes_through_and_leaves_no_hook():
    model, _, guard = small()
    with pytest.raises(ValueError, match="mine"), guard.step():
        model(torch.ones(4, 8))
        raise ValueError("mine")
    assert not any(each._forward_hooks for each in model.modules())


def test_what_cannot_be_guarded_is_refused():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(TypeError, match="16 bits"):
        PrecisionGuard(nn.Linear(2, 2).half(), optimizer)
    with pytest.raises(TypeError, match="compiled"):
        PrecisionGuard(torch.compile(model), optimizer)
    with pytest.raises(TypeError, match="nn.Module"):
        PrecisionGuard(lambda x: x, optimizer)
    with pytest.raises(TypeError, match="at least 1"):
        PrecisionGuard(model, optimizer, every=0)
