"""Which steps are shadow steps, and what they may cost."""

from __future__ import annotations

import math

import pytest
import torch
from finds import Finds
from mpnanny import MixedPrecisionNanny
from mpnanny.shadow.schedule import AT_ONCE, SECONDS, SHARE, Asked, Schedule, parse
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


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("auto", Asked("auto")),
        ("off", Asked("off")),
        ("every=12", Asked("every", every=12)),
        ("steps=5-5", Asked("steps", first=5, last=5)),
        ("eager", Asked("auto", eager=True)),
        ("layers=a,b.*", Asked("auto", layers=("a", "b.*"))),
        ("layers=a every=2 layers=,b eager", Asked("every", 2, layers=("a", "b"), eager=True)),
    ],
)
def test_words_of_a_schedule(text, asked):
    assert parse(text) == asked
    assert Schedule(parse(text)).eager == asked.eager


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("layers=", "names no layer"),
        ("auto layers=,", "names no layer"),
        ("every=2 steps=1-2", "every=2 steps=1-2"),
        ("  ", "not one of"),
        ("xevery=2", "not one of"),
        ("every=2x", "not one of"),
    ],
)
def test_a_refusal_says_what_is_wrong(text, says):
    with pytest.raises(ValueError, match=says):
        parse(text)


def test_evaluations_are_looked_at_ever_more_rarely():
    schedule = Schedule(parse("auto"))
    run_of(schedule, 10, 0.1, 0.01)
    assert [schedule.evaluation(10) for _ in range(9)] == [
        *(True, True, False, True, False, False, False, True, False)
    ]
    schedule.extra = SECONDS
    assert not any(schedule.evaluation(10) for _ in range(9))
    assert not Schedule(parse("every=5")).evaluation(5)


def test_changes_of_the_state_are_looked_at_ever_more_rarely():
    schedule = Schedule(parse("auto"))
    run_of(schedule, 10, 0.1, 0.01)
    assert [schedule.changed(10) for _ in range(5)] == [True, True, False, True, False]
    schedule.extra = SECONDS
    assert not any(schedule.changed(10) for _ in range(9))
    assert not Schedule(parse("every=5")).changed(5)


@pytest.mark.parametrize(("halves", "why"), [(True, ["change"]), (False, [])])
def test_the_step_after_a_cast_is_looked_at(db, database, halves, why):
    """Adam's eps is 0 in FP16, and so are second moments: the first update breaks."""
    torch.manual_seed(0)
    model = nn.Linear(8, 4)

    def train(steps: int, dtype: torch.dtype) -> None:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for _ in range(steps):
            optimizer.zero_grad()
            (1e-3 * model(torch.randn(16, 8, dtype=dtype)).float().square().mean()).backward()
            optimizer.step()

    with MixedPrecisionNanny(model, db=db, shadow="auto", quiet=True):
        train(20, torch.float32)
        if halves:
            model.half()
        train(3, torch.float16 if halves else torch.float32)
    rows = database().rows("SELECT step, why FROM shadow_step")
    assert [each["why"] for each in rows if each["why"] == "change"] == why
    found = Finds(database()).all
    broke = [each for each in found if each["kind"] == "range" and each["step"] == 20]
    assert [each["precision"] for each in broke][:1] == (["proven"] if halves else [])


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


def test_ends_of_epochs_are_looked_at_ever_more_rarely():
    """The first, the second and the fourth, as the evaluations after them."""
    schedule = Schedule(parse("auto"))
    run_of(schedule, 100, 0.1, 0.0)
    looked_at = []
    for step in range(100, 600):
        if step % 100 == 0:
            schedule.evaluation(step)
        if schedule.why(step) == "epoch":
            looked_at.append(step)
    assert looked_at == [199, 299, 499]


def test_evaluations_between_two_steps_end_no_epoch():
    schedule = Schedule(parse("auto"))
    run_of(schedule, 200, 0.1, 0.01)  # the newest is 196, the next one far away
    schedule.evaluation(200)
    schedule.evaluation(201)
    assert [schedule.why(step) for step in (201, 202)] == ["", ""]


def test_no_step_is_wanted_before_the_first_price_is_paid():
    """Step 0 may cost anything; what is too dear at once waits, also where it is a first step."""
    schedule = Schedule(parse("auto"))
    assert schedule.why(0) == "first"
    schedule.shadowed(0, 2.0, 1.5)  # two of them would be more than AT_ONCE
    assert schedule.why(1) == ""


def test_few_steps_of_a_long_run_lie_each_as_many_times_as_far_as_the_one_before():
    """Four of the five seconds are for steps, 0.6 each: after steps 0, 1 and 4 three are left, and
    a run of unknown length is taken to have 2,000: 2000 / 5 is 7.37 ** 3.
    """
    shadowed = run_of(Schedule(parse("auto")), 400, 1.0, 0.6)
    assert shadowed[:3] == [0, 1, 4] and len(shadowed) == 5
    assert shadowed[3] + 1 == pytest.approx(5 * 7.37, abs=1)
    assert shadowed[4] + 1 == pytest.approx(5 * 7.37**2, abs=2)


def test_what_is_left_is_divided_by_the_steps_that_it_pays():
    """Of 4 seconds 1.5 are used at step 4: five more steps, so six stretches of the last 1,000."""
    schedule = Schedule(parse("auto"))
    schedule.expect(1004)
    shadowed = run_of(schedule, 1004, 0.1, 0.5)[2:]
    assert len(shadowed) == 6 and shadowed[0] == 4
    gaps = [b - a for a, b in zip(shadowed, [*shadowed[1:], 1004], strict=True)]
    assert gaps == pytest.approx([1000 / 6] * 6, abs=4)


def test_steps_that_cost_nothing_lie_a_quarter_of_the_way_apart():
    schedule = Schedule(parse("auto"))
    schedule.expect(100_000)
    assert run_of(schedule, 60, 0.1, 0.0)[-5:] == [22, 27, 33, 41, 51]


def test_the_price_is_that_of_the_newest_steps():
    """A dear first step, as one that compiles, is forgotten after eight others: with 2 of 4 seconds
    left, 0.125 pay 16 steps, 17 stretches of 1,700 steps.
    """
    schedule = Schedule(parse("auto"))
    schedule.shadowed(0, 1.0, 1.0)
    for step in range(1, 8):
        schedule.shadowed(step, 0.125, 0.125)
    schedule.expect(1708)
    schedule.shadowed(8, 0.125, 0.125)
    for _ in range(30):
        schedule.plain(1.0)
    assert [schedule.why(step) for step in (9, 107, 108)] == ["", "", "schedule"]


def test_a_plain_step_is_as_long_as_the_newest_ones():
    schedule = Schedule(parse("auto"))
    assert schedule.plain_seconds is None
    for seconds in (1.0, 9.0, 2.0):
        schedule.plain(seconds)
    assert schedule.plain_seconds == 2.0
    schedule = Schedule(parse("auto"))
    for seconds in [1.0] * 33 + [9.0] * 32:
        schedule.plain(seconds)
    assert schedule.plain_seconds == 9.0
    assert schedule.total == 33 + 32 * 9


def test_plain_steps_pay_from_the_same_seconds():
    schedule = Schedule(parse("auto"))
    assert schedule.can_pay(1.0) and schedule.can_pay(AT_ONCE - 1.0)
    assert not schedule.can_pay(0.01)
    assert schedule.extra == AT_ONCE, "what is not paid is not counted"
    asked = Schedule(parse("every=2"))
    assert asked.can_pay(100.0) and asked.extra == 100.0


def test_a_step_may_take_what_is_left():
    schedule = Schedule(parse("auto"))
    schedule.shadowed(0, 6.0, 1.0)
    # After 6 of 30 seconds a fifth of what is not given at once is there.
    assert schedule.most_seconds() == pytest.approx(AT_ONCE + (SECONDS - AT_ONCE) / 5 - 1.0)
    schedule.plain(54.0)
    assert schedule.most_seconds() == pytest.approx(SECONDS - 1.0)
    schedule.plain(1940.0)
    assert schedule.most_seconds() == pytest.approx(SHARE * 2000 - 1.0)


@pytest.mark.parametrize(("steps", "needed"), [(1, 2), (8, 2), (12, 3), (40, 10)])
def test_what_recurs_is_more_than_chance(steps, needed):
    assert Schedule(parse("auto")).needed(steps) == needed
    assert Schedule(parse("every=2")).needed(steps) == 1


def test_a_drift_waits_for_errors_and_for_the_one_before():
    schedule = Schedule(parse("auto"))
    run_of(schedule, 200, 0.1, 0.01)  # the newest is 196, the next one far away
    schedule.error()
    schedule.drift(200)  # the steps after an error show it as well
    assert [schedule.why(step) for step in (201, 202, 203)] == ["error", "error", ""]
    schedule.drift(203)
    assert schedule.why(204) == "drift"
    schedule.drift(218)
    assert schedule.why(218) == "", "15 steps after the last one"
    schedule.drift(219)
    assert schedule.why(219) == "drift"
    early = Schedule(parse("auto"))
    early.drift(0)
    assert early.why(2) == "drift"
