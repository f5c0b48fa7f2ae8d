"""What is watched (`kinds=`) and which figures of it are stored (`metrics=`)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# In the order of tensor_stats.kind.
KINDS = (
    "input",
    "activation",
    "activation_gradient",
    "gradient",
    "weight",
    "update",
    "optimizer_state",
)
# Columns of tensor_stats that may be left out, in the core's order (kMetrics).
METRICS = (
    *("nan", "posinf", "neginf", "zeros"),
    *("min", "max", "absmax", "absmin", "mean", "std", "rms", "l2"),
    *("below_fp16", "subnormal_fp16", "above_fp16"),
    *("frozen", "exponents"),
)


def chosen(option: str, given: str | Iterable[str] | None, known: tuple[str, ...]) -> int:
    """The names in `given` as bits by their place in `known`; all of them for None. A name that is
    not known raises ValueError.
    """
    if given is None:
        return (1 << len(known)) - 1
    bits = 0
    for name in (given,) if isinstance(given, str) else given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ValueError(f"{option}: {name!r} is not known; {hint}")
        bits |= 1 << known.index(name)
    return bits


def watches(kinds: int, kind: str) -> bool:
    return bool(kinds >> KINDS.index(kind) & 1)
