"""The search for the smallest set of units that stays wide, over errors that are given."""

from __future__ import annotations

import math
import time

import torch
from mpnanny.precision.effect import Effect, Pass, compare_passes
from mpnanny.precision.islands import LEAST_TOLERANCE, find_islands, tolerance_of

UNITS = [f"unit {at}" for at in range(12)]


def summed(errors):
    """A model whose squared errors add up."""

    def run(low):
        return Effect(output=math.sqrt(sum(errors.get(unit, 1e-3) ** 2 for unit in low)))

    return run


def test_nothing_is_wide_where_all_is_well():
    found = find_islands(UNITS, summed({}))
    assert found.islands == [] and found.established
    assert set(found.alone) == set(UNITS)


def test_the_sensitive_units_are_found_wherever_they_stand():
    for places in ([0], [11], [3, 7], [1, 5, 9]):
        sensitive = [f"unit {at}" for at in places]
        found = find_islands(UNITS, summed(dict.fromkeys(sensitive, 0.4)))
        assert found.islands == sensitive
        assert found.established and found.after.error <= LEAST_TOLERANCE
        assert all(effect.error > found.tolerance for effect in found.needed.values())


def test_a_unit_that_is_harmless_alone_and_harmful_with_another_is_found():
    def run(low):
        both = "unit 2" in low and "unit 8" in low
        return Effect(output=0.9 if both else 0.001)

    found = find_islands(UNITS, run)
    assert found.islands in (["unit 2"], ["unit 8"])
    assert found.established


def test_what_is_bad_with_all_units_wide_is_not_established():
    found = find_islands(UNITS, lambda low: Effect(output=0.7))
    assert not found.established


def test_an_operator_that_stops_is_worked_around_or_not_as_asked():
    def run(low):
        return Effect(output=math.inf, raised="RuntimeError: no") if "unit 4" in low else Effect()

    assert find_islands(UNITS, run).islands == ["unit 4"]
    stopped = find_islands(UNITS, run, past_errors=False)
    assert not stopped.established and stopped.passes == 1


def test_a_search_without_time_says_so():
    found = find_islands(UNITS, summed({"unit 3": 0.4}), deadline=time.monotonic() - 1)
    assert not found.established


def test_a_deep_model_may_be_as_wrong_as_its_roundings_are_together():
    alone = {f"layer {at}": Effect(output=0.01) for at in range(100)}
    assert tolerance_of(alone) == 0.25  # 3 · sqrt(100) · 0.01, but not above the most
    alone = {f"layer {at}": Effect(output=0.004) for at in range(36)}
    assert math.isclose(tolerance_of(alone), 3 * 6 * 0.004)
    # One unit that is far worse than the others does not widen it.
    alone["layer 7"] = Effect(output=5.0)
    assert tolerance_of(alone) < 0.08


def test_what_a_single_outlier_adds_is_cut_at_three_times_the_usual():
    alone = {f"layer {at}": Effect(output=0.01) for at in range(8)} | {"bad": Effect(output=9.0)}
    assert math.isclose(tolerance_of(alone), 3 * math.sqrt(8 * 0.01**2 + 0.03**2))


def test_units_without_an_error_or_with_an_infinite_one_leave_the_least_tolerance():
    assert tolerance_of({}) == LEAST_TOLERANCE
    assert tolerance_of({"a": Effect(), "b": Effect()}, least=0.01) == 0.01
    assert tolerance_of({"a": Effect(output=math.inf)}, least=0.01) == 0.01
    # Zeros are no errors: they do not pull the median.
    alone = {"a": Effect(), "b": Effect(), "c": Effect(), "d": Effect(output=0.04)}
    assert math.isclose(tolerance_of(alone), 3 * 0.04)


class Counted:
    """Counts the passes of a model, and lets a clock run by one second in each."""

    def __init__(self, run):
        self.run = run
        self.seen = []

    def __call__(self, low):
        self.seen.append(list(low))
        return self.run(low)

    def clock(self):
        return float(len(self.seen))


def test_passes_are_counted_and_no_more_are_made_than_are_needed():
    nothing = Counted(summed({}))
    assert find_islands(UNITS, nothing, alone=False).passes == len(nothing.seen) == 1
    each = Counted(summed({}))
    assert find_islands(UNITS, each).passes == len(each.seen) == 1 + len(UNITS)
    # 1, 2, 4, 8 and 12 units wide, and then it is known that no set is enough.
    hopeless = Counted(lambda low: Effect(output=0.7))
    assert find_islands(UNITS, hopeless).passes == len(hopeless.seen) == 1 + len(UNITS) + 5
    # One is enough: it is tried, and then that it does not do without.
    one = Counted(summed({"unit 3": 0.4}))
    assert find_islands(UNITS, one).passes == len(one.seen) == 1 + len(UNITS) + 2


def test_the_set_is_the_smallest_and_what_it_costs_to_leave_one_out_is_told():
    for count in range(1, 12):
        sensitive = UNITS[:count]
        run = summed(dict.fromkeys(sensitive, 0.4) | dict.fromkeys(UNITS[count:], 1e-3))
        found = find_islands(UNITS, run)
        wide = [unit for unit in sensitive if unit in found.islands]
        assert found.islands == wide and found.established
        assert found.after == run([unit for unit in UNITS if unit not in wide])
        assert found.after.error <= found.tolerance
        assert set(found.needed) == set(wide)
        for unit in wide:
            without = run([each for each in UNITS if each not in wide or each == unit])
            assert found.needed[unit] == without and without.error > found.tolerance


def test_what_is_just_as_wrong_as_it_may_be_is_good_enough():
    def run(low):
        return Effect(output=0.05 if "unit 5" not in low else 1.0)

    # Alone, each of the others is 0.05 wrong as well, and the tolerance is the least.
    found = find_islands(UNITS, run, least=0.25)
    assert found.tolerance == 0.25 and found.islands == ["unit 5"]

    def edge(low):
        return Effect(output=0.25 if "unit 5" not in low else 1.0)

    found = find_islands(UNITS, edge, least=0.25)
    assert found.tolerance == 0.25 and found.established
    assert found.islands == ["unit 5"] and found.passes == 1 + len(UNITS) + 2
    whole = find_islands(UNITS, lambda low: Effect(output=0.25), least=0.25, alone=False)
    assert whole.islands == [] and whole.passes == 1 and whole.alone == {}


def test_a_plan_that_is_good_enough_is_established_even_where_no_time_is_left(monkeypatch):
    run = Counted(lambda low: Effect(output=LEAST_TOLERANCE))
    monkeypatch.setattr(time, "monotonic", run.clock)
    found = find_islands(UNITS, run, deadline=4)
    assert found.established and found.islands == []
    assert len(found.alone) == 4 and found.passes == 5  # the fifth second is the last


def test_a_search_whose_time_is_over_keeps_what_is_enough(monkeypatch):
    sensitive = ["unit 1", "unit 5", "unit 9"]
    run = Counted(summed(dict.fromkeys(sensitive, 0.4)))
    monkeypatch.setattr(time, "monotonic", run.clock)
    # 13 passes before the search, 1, 2 and 4 wide, and no more.
    found = find_islands(UNITS, run, deadline=15)
    assert not found.established and found.passes == 16
    assert set(sensitive) < set(found.islands) and len(found.islands) == 4
    assert found.after.error <= found.tolerance


def passes(outputs, gradients, loss=1.0):
    return Pass({"output": torch.tensor(outputs, dtype=torch.float64)}, gradients, loss)


def test_errors_are_relative_norms():
    exact = passes([3.0, 4.0], {"w": torch.tensor([1.0, 0.0]).double()})
    held = passes([3.0, 4.5], {"w": torch.tensor([1.0, 0.3]).double()}, 1.02)
    effect = compare_passes(held, exact)
    assert math.isclose(effect.output, 0.1)
    assert math.isclose(effect.loss, 0.02)
    assert math.isclose(effect.gradient, 0.3, rel_tol=1e-6)
    assert effect.worst_name == "w"


def test_values_that_are_not_finite_are_infinitely_wrong_unless_fp32_has_them_too():
    exact = passes([1.0, math.nan], {})
    assert compare_passes(passes([1.0, math.inf], {}), exact).output == 0.0
    broken = compare_passes(passes([math.nan, 1.0], {}), exact)
    assert broken.output == math.inf and broken.nonfinite == 1
    assert compare_passes(passes([1.0, 1.0], {}, math.nan), exact).loss == math.inf


def test_a_gradient_that_is_rounding_alone_is_not_the_worst():
    exact = passes([1.0], {"w": torch.ones(4).double(), "b": torch.full((4,), 1e-9).double()})
    held = passes([1.0], {"w": torch.ones(4).double() * 1.01, "b": -torch.ones(4).double() * 1e-9})
    effect = compare_passes(held, exact)
    assert effect.worst_name == "w" and effect.worst_gradient < 0.011


def test_empty_gradients_and_zeros_are_no_error():
    exact = passes([], {"w": torch.zeros(3).double(), "e": torch.zeros(0).double()}, None)
    assert compare_passes(exact, exact).error == 0.0
