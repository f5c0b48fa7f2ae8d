"""What a shadow step, or what came before the first one, has made for later steps: tables, data,
schedules. Not what is trained, nor what every step makes anew.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..fp64.comparison import Comparison, compare, on_host
from ..fp64.dependencies import Dependencies
from ..fp64.lasting import MOST_BYTES, LastingReferences, Origin, flat, whole_of
from ..fp64.references import NONE, Entry, References
from .tape import Tape

MOST_COMPARED = 4 * MOST_BYTES  # the smallest first
_OF_TRAINING = frozenset(("backward", "optimizer", "state"))  # phases


def made_to_last(
    references: References, tape: Tape, dependencies: Dependencies, known: LastingReferences
) -> Iterator[tuple[Entry, torch.Tensor, Comparison, Origin, float]]:
    """As LastingReferences.keep() takes it: what is still there when the step is over, and is not
    what it should be.
    """
    room = MOST_COMPARED
    for entry in sorted(references.living(), key=lambda each: each.base.numel()):
        if not _is_candidate(entry) or known.knows(entry):
            continue
        error, is_noise, rounding = tape.judge.known(entry.memory)
        written = entry.node is not None and bool(entry.node.operator.written)
        if is_noise or not (error > 0 or written):
            continue
        held = whole_of(entry)
        if held is None or dependencies.is_of_leaves(held):
            continue
        room -= _bytes(entry)
        if room < 0:
            return
        figures = compare(held, flat(entry.base)) if on_host(held) else tape.figures(entry.slot)
        if figures is None or not (figures.squared_error > 0 or figures.range):
            continue
        origin = tape.origin(entry, held.dtype)
        if origin is not None:
            yield entry, held, figures, origin, rounding


def _is_candidate(entry: Entry) -> bool:
    node = entry.node
    if node is None or entry.slot == NONE or node.site.phase in _OF_TRAINING:
        return False
    if node.operator.written and node.site.phase != "data":  # running statistics, counters
        return False
    return _bytes(entry) <= MOST_BYTES


def _bytes(entry: Entry) -> int:
    return entry.base.numel() * entry.base.element_size()
