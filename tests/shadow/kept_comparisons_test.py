"""Comparisons that stay with a reference: used again where nothing was written, and only there."""

from __future__ import annotations

import pytest
import torch
from mpnanny.fp64 import comparison
from mpnanny.fp64.places import Places
from mpnanny.fp64.references import NONE
from mpnanny.shadow import tape
from mpnanny.shadow.changes import Changes
from mpnanny.shadow.engine import ShadowMode


def raised(error: Exception) -> None:
    raise error


@pytest.fixture
def mode():
    torch.manual_seed(0)
    return ShadowMode(Places({}), Changes(lambda memory: None), raised, 1 << 30)


@pytest.fixture
def compared(monkeypatch):
    """The shapes of what the kernels compare."""
    shapes = []
    real = tape.as_read

    def as_read(held, reference):
        shapes.append(tuple(held.shape))
        return real(held, reference)

    monkeypatch.setattr(tape, "as_read", as_read)
    return shapes


def cancelled() -> torch.Tensor:
    """Almost nothing but error: what is made of it has its inputs looked at."""
    return (torch.randn(8, 8) * 1e-3 + 1).bfloat16() - 1


def test_an_input_is_not_compared_again(mode, compared):
    with mode:
        x = cancelled()
        compared.clear()
        x * 2
        x.mul_(3)  # in place, too
        x.add_(1)
    assert len(compared) == 3  # the three results


def test_each_view_is_compared_by_itself(mode, compared):
    with mode:
        x = cancelled()
        compared.clear()
        x[:2] * 2
    assert compared == [(2, 8), (2, 8)]  # the result, the view


def test_what_was_written_is_compared_again(mode):
    with mode:
        x = cancelled()
        entry = mode.references.entry(x)
        assert entry.slot_of(x) != NONE
        assert entry.slot_of(x[1:]) == NONE
        assert entry.slot_of(x.mT) == NONE
        x[1:].add_(1)
        assert entry.slot_of(x) == NONE
        assert mode.tape.figures(entry.slot_of(x[1:])).numel == 56
        mode.looking = False
        x[1:].add_(1)  # out of sight
        assert entry.slot_of(x[1:]) == NONE


def test_an_operator_that_draws_leaves_no_comparison_behind(mode):
    with mode:
        x = cancelled()
        torch.nn.init.normal_(x[1:])
        assert mode.references.entry(x).slot_of(x) == NONE


@pytest.mark.parametrize("dims", [3, 4, 5])
def test_the_order_in_memory_makes_no_difference(dims):
    torch.manual_seed(0)
    reference = torch.randn(*[5, 4, 3, 7, 2][:dims], dtype=torch.float64)
    last = reference.movedim(1, -1).contiguous().movedim(-1, 1)
    assert last.stride(1) == 1
    plain = comparison.compare(reference.bfloat16(), reference)
    for held, other in ((last, last), (last, reference), (reference, last)):
        found = comparison.compare(held.bfloat16(), other)
        assert found == pytest.approx(plain, rel=1e-12)


def test_old_values_are_copied_where_they_are_used(mode):
    state = torch.randn(4)
    made = []
    result = mode.tape.result
    mode.tape.result = lambda call, *others: (made.append(call.written), result(call, *others))[1]
    with mode:
        x = cancelled()
        x.mul_(2)
        torch._foreach_mul_([x], 2)
        state.mul_(2)
        torch._foreach_mul_([state], 2)
        state.zero_()
    kept = [
        [(each.before is not None, each.was is not None) for each in written]
        for written in made
        if written
    ]
    assert kept == [
        [(True, False)],  # for a cure only
        [(False, False)],
        [(True, True)],
        [(True, True)],
        [(False, False)],
    ]


def test_what_is_overwritten_first_changes_from_what_was_held(mode):
    """Its reference has no values of its own before that."""
    states = [torch.randn(64), torch.randn(8, 8)[:, :4]]
    held = [each.clone() for each in states]
    sources = [torch.randn(each.shape) for each in states]
    changes = []
    result = mode.tape.result
    mode.tape.result = lambda call, *others: (changes.extend(call.written), result(call, *others))[
        1
    ]
    with mode:
        for state, source in zip(states, sources, strict=True):
            state.copy_(source)
    for before, written in zip(held, changes, strict=True):
        assert torch.equal(written.was, before.double())
