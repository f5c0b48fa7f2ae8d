"""`_core.Gathered`: the tensors of a step on a device, for which the CPU stands in."""

from __future__ import annotations

import math

import pytest
import torch
from mpnanny import _core
from mpnanny.steps.gathered import EXTREMES, NORM, WHOLE

LIKE = torch.zeros(1)


@pytest.fixture
def recorder(db):
    made = _core.Recorder(db, "run", 0, 1, 0.0, "fp32", 100, "{}", 50, 2048)
    for at in range(4):
        made.add_layer(f"layer{at}", "Linear", None, 1, True)
    made.begin_step(0)
    yield made
    made.close("closed")


def gathered(recorder, sampled=False):
    return _core.Gathered(recorder, LIKE, sampled)


def rows(found, kernel="flags") -> int:
    return sum(each[1] for each in found.waiting(kernel))


def test_a_tensor_that_goes_on_is_read_once(recorder):
    found = gathered(recorder)
    first, second = torch.ones(3), torch.ones(3)
    found.note(1, True, (first,), second)
    found.note(2, True, (second,), [second, {"more": first}])
    assert found.calls() == 2
    assert found.close() == []
    assert rows(found) == 2
    found.release()
    found.note(3, True, (second,), torch.ones(2))  # it lives, and is as it was
    found.close()
    assert rows(found) == 1


def test_what_was_written_is_another_one(recorder):
    found = gathered(recorder)
    tensor = torch.ones(3)
    found.note(1, True, (), tensor)
    found.note(2, True, (tensor.add_(1),), tensor)
    found.close()
    assert rows(found) == 1
    assert found.release() == [1]
    found.ask_at_once([1])
    assert found.note(1, True, (), torch.ones(3))
    assert not found.note(2, True, (), torch.ones(3))


def test_memory_that_was_freed_is_not_read(recorder):
    found = gathered(recorder)
    freed, moved, kept = torch.ones(3), torch.ones(3), torch.ones(3)
    for layer, each in enumerate((freed, moved, kept), 1):
        found.note(layer, True, (), each)
    freed.untyped_storage().resize_(0)
    moved.data = torch.ones(3)
    found.close()
    assert rows(found) == 1
    assert found.release() == [1, 2]


def test_all_figures_of_what_was_known_in_part_are_asked_for(recorder):
    found = gathered(recorder, sampled=True)
    tensor = torch.ones(3)
    found.note(1, False, (), tensor)  # a container
    found.note(2, True, (tensor,), torch.ones(3))
    found.note(3, False, (tensor,), tensor)
    found.close()
    assert (rows(found), rows(found, "figures")) == (1, 2)


def test_it_says_when_to_ask(recorder):
    found = gathered(recorder)
    assert [found.note(1, True, (), torch.ones(1)) for _ in range(251)].index(True) == 249
    found.close()
    found.release()
    assert not found.note(1, True, (), torch.ones(1))
    assert found.note(1, True, (), torch.empty((64 << 20) // 4))
    sampled = gathered(recorder, sampled=True)
    assert [sampled.note(1, True, (), torch.ones(1)) for _ in range(65)].index(True) == 63


def test_what_kernels_cannot_read_is_handed_out(recorder):
    found = gathered(recorder)
    gaps, dense = torch.ones(4, 4)[:, :2], torch.ones(4, 4).t()
    number = found.add(gaps, NORM, 0)
    assert found.add(torch.ones(2, dtype=torch.int64), NORM, 0) == -1
    assert found.add(torch.ones(0), NORM, 0) == -1
    assert found.add("word", NORM, 0) == -1
    found.add(dense, NORM, 0)
    (other,) = found.close()
    assert other[:3] == (number, NORM, True)
    assert other[3] is gaps
    assert rows(found) == 1
    assert not found.replace(number, gaps)
    assert found.replace(number, gaps.contiguous())
    assert rows(found) == 2
    without = _core.Gathered(recorder, None, False)
    numbers = without.add_all([gaps, None, dense], WHOLE)
    assert [each[:3] for each in without.close()] == [
        (numbers[0], WHOLE, False),
        (numbers[2], WHOLE, False),
    ]
    assert numbers[1] == -1


def test_what_was_found_is_told_in_order(recorder):
    found = _core.Gathered(recorder, None, False)
    good, bad = torch.ones(2), torch.ones(2)
    found.note(1, True, (good,), good)
    found.note(2, True, (good,), bad)
    for number, wanted, _, tensor in found.close():
        assert wanted == EXTREMES
        high = math.nan if tensor is bad else 1.0
        found.set(number, _core.extremes("float32", 2, high, high))
    assert [found.value(number) for number in range(2)] == [
        1.0,
        pytest.approx(math.nan, nan_ok=True),
    ]
    assert found.reading(7) is None and found.value(-1) is None
    asked = []
    found.report(0, 99, lambda layer: asked.append(layer) or [])
    assert asked == [2]
    with pytest.raises(ZeroDivisionError):
        found.report(0, 99, lambda layer: 1 / 0)


def test_wrong_arguments(recorder):
    found = gathered(recorder)
    with pytest.raises(TypeError):
        found.note(1, True, ())
    with pytest.raises(TypeError):
        found.set(0, 5)
    with pytest.raises(ValueError, match="no kernel"):
        found.waiting("compare me")
    with pytest.raises(RuntimeError, match="set up once"):
        found.__init__(recorder, None, False)
