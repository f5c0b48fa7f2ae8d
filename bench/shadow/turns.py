"""What one shadow step takes beyond a plain one: two watched copies of a model in turns of three
steps, one of them with a shadow on the middle step.
"""

from __future__ import annotations

import os
import statistics
from typing import Any

import mpnanny
from trainings import PASSES, Marks, Training

TURN = 3


def watch(training: Training, shadow: str, folder: str) -> mpnanny.MixedPrecisionNanny:
    """Never samples after its first step."""
    return mpnanny.MixedPrecisionNanny(
        training.model,
        training.optimizer,
        trace_interval=10**9,
        db=os.path.join(folder, f"{id(training)}-{shadow}.db"),
        quiet=True,
        shadow=shadow,
    )


def shadowed_turns(training: Training, folder: str) -> mpnanny.MixedPrecisionNanny:
    """From here on every TURN steps are plain, shadow, plain. (The mode of a shadow step stays on
    until the next step begins, so a turn must not end with one.)
    """
    nanny = watch(training, f"every={TURN}", folder)
    training.steps(TURN + 2)
    return nanny


def pairs(plain: Training, shadowed: Training, rounds: int) -> list[tuple[Marks, Marks]]:
    made = []
    for at in range(rounds):
        order = (plain, shadowed) if at % 2 == 0 else (shadowed, plain)
        marks = {id(each): each.steps(TURN) for each in order}
        made.append((marks[id(plain)], marks[id(shadowed)]))
    return made


def medians(rounds: list[tuple[Marks, Marks]]) -> dict[str, Any]:
    """A shadow step over a plain one: by wall time with its range, by processor time, by pass."""

    def ratio(plain: float, with_shadow: float) -> float:
        return 1 + (with_shadow - plain) / (plain / TURN)

    every = {
        "ratio": [ratio(a.wall, b.wall) for a, b in rounds],
        "processor_ratio": [ratio(a.processor, b.processor) for a, b in rounds],
        **{name: [ratio(a.seconds[name], b.seconds[name]) for a, b in rounds] for name in PASSES},
    }
    figures: dict[str, Any] = {
        name: round(statistics.median(values), 2) for name, values in every.items()
    }
    figures["range"] = [round(min(every["ratio"]), 2), round(max(every["ratio"]), 2)]
    figures["plain_ms"] = round(1e3 * statistics.median(a.wall / TURN for a, _ in rounds), 1)
    return figures
