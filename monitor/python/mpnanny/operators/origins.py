"""A value that is not finite and the operator that made it; which one of a step to name."""

from __future__ import annotations

from dataclasses import dataclass

NAN, POSINF, NEGINF = 1, 2, 4  # bits of _core.nonfinite()


def rank(bits: int) -> int:
    """How bad: 0 finite, 1 -Inf alone (what masks hold), 2 +Inf, 3 NaN."""
    return 3 if bits & NAN else 2 if bits & POSINF else 1 if bits else 0


@dataclass(slots=True)
class Origin:
    """One operator that made a value that is not finite, or made it worse."""

    phase: str  # data | forward | loss | backward | optimizer
    module: str | None  # of the model, as in named_modules()
    name: str  # "block.attn: aten._softmax (model.py:12)"
    source: str  # file:line, or ""
    parent: Origin | None  # whose -Inf became something worse here
    nan: bool
    count: int  # of the elements that are not finite
    text: str


def reported(origins: list[Origin], blamed: Origin | None) -> tuple[Origin, str] | None:
    """The operator to name, and what to say of it: the one that what is alarmed comes from, which
    need not be the first of the step (an infinity that is clamped, a mask), or else the first.
    """
    origin = blamed or next(iter(origins), None)
    if origin is None:
        return None
    text, first = origin.text, origin
    while first.parent is not None:
        first = first.parent
        text = f"{first.text} {text}"
    return first, text
