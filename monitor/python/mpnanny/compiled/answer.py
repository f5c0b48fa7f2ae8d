"""The comparison as the answer of auto_diff has it; docs/auto_diff.md explains the fields."""

from __future__ import annotations

import math
import os
from typing import Any

from ..programs.problem import users_line
from .against_eager import Comparison
from .comparing import Parted, nearer

_MOST = 8


def answer_of(made: Comparison) -> dict[str, Any]:
    root = made.program.target.root
    raised = made.compiled.raised or made.eager.raised
    answer: dict[str, Any] = {
        "verdict": _verdict(made),
        "target": made.program.target.name,
        "policy": "compile",
        "mode": "native",
        "emulated": [],
    }
    first = made.parted[0] if made.parted else None
    if raised is not None:
        answer["first_bad"] = _raised(made, root)
    elif first is not None:
        answer["first_bad"] = _first(made, first, root)
    answer["findings"] = []
    answer["contributors"] = []
    answer["keep_fp32"] = []
    answer["output"] = [_value(each) for each in made.parted[:_MOST]]
    switch = None
    if made.switch is not None:
        before, after = made.errors if made.errors is not None else (None, None)
        switch = {
            "what": _relative(made.switch.what, root),
            "error_before": number(before),
            "error_after": number(after),
        }
    answer["compile"] = {
        "stage": made.stage,
        "nearer": _nearer(made, first),
        "switch": switch,
        "graphs": made.graphs,
        "graph_breaks": [
            {"source": _relative(each["source"], root), "reason": each["reason"]}
            for each in made.breaks
        ],
        "tried": [_relative(each, root) for each in made.tried],
        "parted": len(made.parted),
        "compared": len(made.eager.values),
    }
    if made.steps:
        answer["steps"] = [
            {"step": at, "eager": number(a), "compiled": number(b)}
            for at, (a, b) in enumerate(made.steps)
        ]
    answer["inputs"] = [{"name": each.name, "words": each.words} for each in made.program.inputs]
    answer["seconds"] = {name: round(each, 3) for name, each in made.seconds.items()}
    answer["limits"] = list(made.limits)
    if not made.graphs:
        answer["limits"].append("nothing_compiled")
    if made.program.options.backward and not any(
        each == "backward" for each in made.eager.phases.values()
    ):
        answer["limits"].append("no_gradients")
    return answer


def _verdict(made: Comparison) -> str:
    if made.compiled.raised is not None or made.eager.raised is not None:
        return "broken"
    if not made.parted:
        return "clean"
    return "broken" if any(each.is_broken for each in made.parted) else "degraded"


def _nearer(made: Comparison, first: Parted | None) -> str:
    """Of what comes out; where that has no reference, of the operator that was found."""
    if first is None:
        return "neither"
    if first.eager_error is None and made.place is not None and made.place.errors is not None:
        return nearer(*made.place.errors)
    return first.nearer()


def _first(made: Comparison, parted: Parted, root: str) -> dict[str, Any]:
    place = made.place
    shown: dict[str, Any] = {
        "op": place.op if place is not None else "",
        "module": place.module if place is not None else "",
        "source": _relative(place.source, root) if place is not None else "",
        "phase": place.phase if place is not None else parted.phase.replace("step", "forward"),
        "kind": parted.kind,
        "what": parted.what,
        "value": parted.name,
        "dtype": parted.dtype,
        "shape": str(list(parted.shape)),
        "share": number(parted.share),
        "accumulated": number(parted.error),
        "eager_error": number(parted.eager_error),
        "compiled_error": number(parted.error_compiled),
    }
    if place is not None:
        shown["way"] = place.way
        shown["fusion"] = place.ops
        if place.error is not None:
            shown["local"] = number(place.error)
    return shown


def _raised(made: Comparison, root: str) -> dict[str, Any]:
    only_eager = made.compiled.raised is None
    error = made.eager.raised if only_eager else made.compiled.raised
    assert error is not None
    source, _ = users_line(error, root)
    place = made.place
    words = str(error).strip().splitlines()
    return {
        "op": place.op if place is not None else "",
        "module": "",
        "source": _relative(place.source, root) if place is not None else source,
        "phase": "forward",
        "kind": "range",
        "what": "raised_by_eager" if only_eager else "raised",
        "error": f"{type(error).__name__}: {words[0] if words else ''}"[:400],
    }


def _value(each: Parted) -> dict[str, Any]:
    return {
        "name": each.name,
        "dtype": each.dtype,
        "error": number(each.error),
        "eager_error": number(each.eager_error),
        "compiled_error": number(each.error_compiled),
        "nearer": each.nearer(),
        "share": number(each.share),
    }


def _relative(text: str, root: str) -> str:
    return text.replace(os.path.realpath(root) + os.sep, "") if root else text


def number(value: float | None) -> Any:
    """As JSON has it: what is not finite is a word."""
    if value is None:
        return None
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
