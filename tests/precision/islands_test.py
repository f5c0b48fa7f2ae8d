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
