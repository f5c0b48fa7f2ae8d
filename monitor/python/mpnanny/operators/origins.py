"""A value that is not finite and the operator that made it; which one of a step to name."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

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
    fact: dict[str, Any]  # as an entry of alert.detail's "operators"

    @property
    def nan(self) -> bool:
        return "nan" in self.fact["made"]

    @property
    def count(self) -> int:
        """Elements that are not finite, at least."""
        return int(self.fact.get("count", 1))


_WORDS = {"nan": "NaN", "posinf": "+Inf", "neginf": "-Inf"}


def fact_of(
    operator: str,
    phase: str,
    source: str,
    module: str | None,
    within: dict[str, str],
    made: dict[str, int | None],
    dtype: str,
    shape: list[int] | None,
    elements: int | None,
    bits: int,
    largest: float | None,
) -> dict[str, Any]:
    """What is known of an operator that made a value that is not finite. `within`: of a backward
    pass whose it is; `made`: how many of which kind, None uncounted; `bits`: what went in.
    """
    fact: dict[str, Any] = {"operator": operator, "phase": phase, **within}
    if source:
        fact["source"] = source
    if module:
        fact["module"] = module
    fact["made"] = list(made)
    counts = [count for count in made.values() if count is not None]
    if counts and elements is not None:
        fact.update(count=sum(counts), of=elements, counts=counts)
    if dtype:
        fact["dtype"] = dtype
    if shape is not None:
        fact["shape"] = shape
    fact["inputs"] = "finite" if not bits else "mask" if bits == NEGINF else "infinite"
    if not bits and largest is not None and math.isfinite(largest):
        fact["largest_input"] = abs(largest)
    return fact


def in_words(fact: dict[str, Any]) -> str:
    """The sentence that the console prints."""
    text = str(fact["operator"])
    if "backward_of" in fact:
        text += f" in the backward pass of {fact['backward_of']}"
    elif "autograd_node" in fact:
        text += f" in {fact['autograd_node']}"
    if "source" in fact:
        text += f" ({fact['source'].rpartition('/')[2]})"
    names = [_WORDS[each] for each in fact["made"]]
    if "counts" in fact:
        names = [f"{count} {name}" for count, name in zip(fact["counts"], names, strict=True)]
    text += f" made {' and '.join(names)}"
    if "of" in fact:
        text += f" of {fact['of']} elements"
    if "dtype" in fact:
        text += f" in {fact['dtype']} {fact.get('shape', '')}"
    text += "; what went in "
    if fact["inputs"] == "mask":
        return text + "holds -Inf, as masks do, and nothing worse."
    if fact["inputs"] == "infinite":
        return text + "holds infinities and no NaN."
    largest = fact.get("largest_input")
    return text + "is finite" + (f", up to {largest:.5g}." if largest is not None else ".")


def reported(origins: list[Origin], blamed: Origin | None) -> tuple[Origin, str, str] | None:
    """The operator to name, what to say of it, and the facts as a JSON array: the one that what is
    alarmed comes from, which need not be the first of the step (an infinity that is clamped, a
    mask), or else the first.
    """
    origin = blamed or next(iter(origins), None)
    if origin is None:
        return None
    chain = [origin]
    while chain[0].parent is not None:
        chain.insert(0, chain[0].parent)
    facts = [each.fact for each in chain]
    return chain[0], " ".join(map(in_words, facts)), json.dumps(facts)
