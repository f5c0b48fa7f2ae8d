"""Which steps are shadow steps, and what they may cost."""

from __future__ import annotations

import math

import pytest
from mpnanny import MixedPrecisionNanny
from mpnanny.shadow.schedule import AT_ONCE, SECONDS, SHARE, Schedule, parse
from torch import nn


def run_of(schedule: Schedule, steps: int, plain: float, cost: float) -> list[int]:
    """The shadow steps of a run whose steps take `plain` seconds and a shadow `cost` more."""
    shadowed = []
    for step in range(steps):
        if schedule.why(step):
            schedule.shadowed(step, plain + cost, cost)
            shadowed.append(step)
        else:
            schedule.plain(plain)
    return shadowed


def test_auto_takes_first_steps_and_then_ever_fewer():
    shadowed = run_of(Schedule(parse("auto")), 300, 0.1, 0.01)
    assert shadowed[:12] == [0, 1, 4, 5, 6, 7, 8, 10, 12, 15, 18, 22]
    assert len(shadowed) < 30


@pytest.mark.parametrize("cost", [0.2, 1.0, 2.4])
@pytest.mark.parametrize("steps", [100, 1000, 20_000, 300_000])
def test_auto_costs_seconds_or_a_share_of_the_run(cost, steps):
    schedule = Schedule(parse("auto"))
    shadowed = run_of(schedule, steps, 0.05, cost)
    assert shadowed[0] == 0
    assert schedule.extra == pytest.approx(cost * len(shadowed))
    assert schedule.extra <= max(SECONDS, SHARE * schedule.total)


def test_what_is_too_dear_is_done_no_second_time():
    """The first step is not asked for its price: it is not known."""
    schedule = Schedule(parse("auto"))
    assert run_of(schedule, 1000, 0.01, 4.0) == [0]
    # 4 seconds are used up, and one more would be 8: a share of 0.01 allows it after 800 s.
    later = run_of(schedule, 200_000, 0.01, 4.0)
    assert all(schedule.total >= 799 for _ in later) and len(later) <= 5
    assert schedule.extra <= SHARE * schedule.total


def test_a_step_that_had_to_end_early_is_tried_again_with_twice_the_time():
    schedule = Schedule(parse("auto"))
    assert schedule.why(0) and schedule.most_seconds() == SECONDS
    schedule.shadowed(0, 6.0, SECONDS, ended_early=True)
    step = 1
    while not schedule.why(step):
        schedule.plain(1.0)
        step += 1
    assert schedule.most_seconds() >= 2 * SECONDS
    assert schedule.total >= 3 * SECONDS / SHARE - 1
    assert Schedule(parse("every=2")).most_seconds() == math.inf


def test_errors_and_drift_are_looked_at():
    schedule = Schedule(parse("auto"))
    run_of(schedule, 200, 0.1, 0.01)  # the newest is 196, the next one far away
    schedule.error()
    assert [schedule.why(step) for step in (200, 201, 202)] == ["error", "error", ""]
    schedule.drift(203)
    assert [schedule.why(204), schedule.why(205)] == ["drift", ""]
    schedule.drift(210)  # too soon after the last one
    assert schedule.why(211) == ""
    schedule.drift(220)
    assert schedule.why(221) == "drift"
    assert schedule.plain_seconds == 0.1


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("off", []), ("every=3", [0, 3, 6, 9]), ("every=1", [*range(10)]), ("steps=4-6", [4, 5, 6])],
)
def test_what_is_asked_for_is_done_at_any_price(asked, expected):
    assert run_of(Schedule(parse(asked)), 10, 0.1, 100.0) == expected


@pytest.mark.parametrize(
    "text", ["", "on", "every=0", "every=-1", "every=x", "steps=5-4", "steps=3", 3]
)
def test_a_wrong_schedule_is_refused_where_it_is_given(text):
    with pytest.raises(ValueError, match="shadow="):
        MixedPrecisionNanny(nn.Linear(2, 2), shadow=text)


def test_evaluations_are_looked_at_ever_more_rarely():
    schedule = Schedule(parse("auto"))
    run_of(schedule, 10, 0.1, 0.01)
    assert [schedule.evaluation(10) for _ in range(9)] == [
        *(True, True, False, True, False, False, False, True, False)
    ]
    schedule.extra = SECONDS
    assert not any(schedule.evaluation(10) for _ in range(9))
    assert not Schedule(parse("every=5")).evaluation(5)


def test_dear_steps_are_spread_over_a_long_run():
    """Eight of them would have been steps 0 to 10."""
    shadowed = run_of(Schedule(parse("auto")), 1600, 0.02, 0.6)
    assert shadowed[:3] == [0, 1, 4]
    assert shadowed[-1] > 400 and len(shadowed) >= 5


def test_a_length_that_is_known_is_divided_evenly():
    schedule = Schedule(parse("auto"))
    schedule.expect(1600)
    shadowed = run_of(schedule, 1600, 0.02, 0.6)
    late = shadowed[3:]
    gaps = [b - a for a, b in zip(late, [*late[1:], 1600], strict=True)]
    assert late and max(gaps) <= 2 * min(gaps)


def test_the_seconds_of_a_run_are_given_as_it_goes_on():
    schedule = Schedule(parse("auto"))
    shadowed = run_of(schedule, 20, 0.01, 0.5)
    assert schedule.extra <= AT_ONCE + 0.5 and len(shadowed) <= 5


def test_evaluations_have_seconds_that_steps_leave():
    schedule = Schedule(parse("auto"))
    run_of(schedule, 1000, 0.1, 0.25)
    assert schedule.evaluation(1000)


def test_the_last_step_of_an_epoch_is_looked_at_once_evaluations_show_how_long_one_is():
    schedule = Schedule(parse("auto"))
    run_of(schedule, 100, 0.1, 0.01)
    schedule.evaluation(100)
    assert schedule.why(199) == "epoch"
