"""Tries a suspected line: runs the function around it on inputs made for it, and says whether what
is suspected happens there.

Under autocast an input is FP32 as a loader gives it, or 16-bit as a layer does: what the callers in
the file say, else both are tried. Only a run that met 16 bits can clear a suspicion of them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..programs.compiled import running_eagerly
from ..programs.problem import Problem
from ..programs.program import Options, Program
from ..programs.specification import Value, in_dtype
from ..programs.target import Target
from .answer import NOTHING_LOW
from .around import Call, Located, calls, locate

MOST_SECONDS = 30.0
MOST_TRIED = 60  # rows of the answer
NO_FINITE = "inputs whose result in FP32 is finite"

# Measures one program and answers; None where the inputs are not valid in FP32.
Run = Callable[[Program], dict[str, Any] | None]


def prove(
    words: str,
    root: str,
    options: Options,
    run: Run,
    seed: int,
    low: torch.dtype | None = None,
    seconds: float = MOST_SECONDS,
) -> dict[str, Any]:
    """`words`: file.py:line. `low`: the 16-bit dtype that inputs may have beside FP32, None where
    the policy itself makes them so. `seconds`: after which no more is tried. The answer that
    confirms the suspicion, or the worst one, with `proof`. Raises Problem where there is no such
    line.
    """
    file, _, line = words.rpartition(":")
    if not line.isdigit() or not file:
        raise Problem(f"'{words}' is no line.", "Write file.py:123.")
    located = locate(file, int(line), root)
    proof: dict[str, Any] = {
        "line": f"{os.path.relpath(file, root) if root else file}:{line}",
        "result": "cannot_be_run_alone",
        "function": located.qualname,
        "tried": [],
        "missing": list(located.missing),
    }
    if located.missing:
        return {"verdict": "not_established", "proof": proof}
    with running_eagerly():
        return _tried(located, proof, root, options, run, seed, low, seconds)


def _tried(
    located: Located,
    proof: dict[str, Any],
    root: str,
    options: Options,
    run: Run,
    seed: int,
    low: torch.dtype | None,
    seconds: float,
) -> dict[str, Any]:
    def target_of(call: Call) -> Target:
        return Target(located.qualname, lambda: call.function, root)

    worst: dict[str, Any] | None = None
    deadline = time.monotonic() + seconds
    met_low = False
    failed = NO_FINITE
    useless: set[str] = set()  # dtypes of inputs with which nothing ran in 16 bits
    for call in calls(located, seed, seconds / 2):
        if time.monotonic() > deadline or len(proof["tried"]) >= MOST_TRIED:
            break
        for given in _as_given(call, low):
            words = [each.words for each in given]
            dtypes = ", ".join(dict.fromkeys(_dtypes(words)))
            if dtypes in useless:
                continue
            try:
                answer = run(Program(target_of(call), given, options))
            except Problem as problem:
                failed = problem.message
                continue
            if answer is None:
                continue
            confirmed = shows(answer, located.file, located.lines, root)
            proof["tried"].append(
                {
                    "input": words,
                    "range": call.range,
                    "dtypes": dtypes,
                    "verdict": answer["verdict"],
                }
            )
            if NOTHING_LOW in answer.get("limits", []):
                useless.add(dtypes)
            else:
                met_low = True
            if confirmed or worst is None or badness(answer) > badness(worst):
                worst = answer
                proof["input"] = words
            if confirmed:
                proof["result"] = "confirmed"
                return {**answer, "proof": proof}
    if worst is None:
        proof["missing"] = list(located.missing) or [failed]
        return {"verdict": "not_established", "proof": proof}
    proof["missing"] = []
    proof["result"] = "not_at_these_inputs" if met_low else "not_in_low_precision"
    return {**worst, "proof": proof}


def _as_given(call: Call, low: torch.dtype | None) -> Iterator[list[Value]]:
    """The inputs of `call` with their floating-point numbers as the training may give them: all
    16-bit, all FP32; an input whose dtype the callers say has that one.
    """
    plain = [
        Value(name, words, value)
        for words, (name, value) in zip(call.words, call.kwargs.items(), strict=True)
    ]
    kinds = [low, torch.float32] if low is not None else [None]
    seen: set[tuple[str, ...]] = set()
    for kind in kinds:
        given = list(plain)
        if kind is not None:
            known = {name: getattr(torch, each) for name, each in call.dtypes.items()}
            given = [in_dtype([each], known.get(each.name, kind))[0] for each in plain]
        words = tuple(each.words for each in given)
        if words not in seen:
            seen.add(words)
            yield given


def _dtypes(words: list[str]) -> list[str]:
    return [found for each in words for found in re.findall(r"\b(b?float\d+)(?=\[|$)", each)]


def badness(answer: dict[str, Any]) -> tuple[bool, int]:
    """To compare answers to one request: a suspicion that is confirmed counts most."""
    confirmed = answer.get("proof", {}).get("result") == "confirmed"
    words = ("not_established", "clean", "degraded", "broken")
    return confirmed, words.index(answer["verdict"])


def is_worst(answer: dict[str, Any]) -> bool:
    """Whether no other answer to the request can be worse."""
    proof = answer.get("proof")
    if proof is not None:
        return bool(proof["result"] == "confirmed")
    return bool(answer["verdict"] == "broken")


def shows(answer: dict[str, Any], file: str, lines: list[int], root: str) -> bool:
    """Whether what makes the verdict stands on one of `lines`, or is cured there."""
    wanted = {f"{os.path.realpath(file)}:{line}" for line in lines}
    found = [answer.get("first_bad") or {}, *answer["findings"]]
    sources = [each["source"] for each in found if each.get("source")]
    sources += (answer.get("cure") or {}).get("lines", [])
    return answer["verdict"] in ("broken", "degraded") and any(
        os.path.realpath(os.path.join(root, each)) in wanted for each in sources
    )
