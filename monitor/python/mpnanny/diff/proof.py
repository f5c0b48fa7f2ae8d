"""Tries a suspected line: runs the function around it on inputs made for it, and says whether what
is suspected happens there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from .around import Call, Located, calls, locate
from .problem import Problem
from .program import Options, Program
from .specification import Value
from .target import Target

MOST_SECONDS = 30.0
MOST_TRIED = 60  # rows of the answer

# Measures one program and answers; None where the inputs are not valid in FP32.
Run = Callable[[Program], dict[str, Any] | None]


def prove(words: str, root: str, options: Options, run: Run, seed: int) -> dict[str, Any]:
    """`words`: file.py:line. The answer that confirms the suspicion, or the worst one, with
    `proof`. Raises Problem where there is no such line.
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
    worst: dict[str, Any] | None = None
    deadline = time.monotonic() + MOST_SECONDS
    for call in calls(located, seed, MOST_SECONDS / 2):
        if time.monotonic() > deadline or len(proof["tried"]) >= MOST_TRIED:
            break
        answer = run(_program(call, located, root, options))
        if answer is None:
            continue
        confirmed = shows(answer, file, located.lines, root)
        proof["tried"].append(
            {"input": call.words, "range": call.range, "verdict": answer["verdict"]}
        )
        if confirmed or worst is None or _badness(answer) > _badness(worst):
            worst = answer
            proof["input"] = call.words
        if confirmed:
            proof["result"] = "confirmed"
            break
    if worst is None:
        proof["missing"] = list(located.missing) or ["inputs with which it runs in FP32"]
        return {"verdict": "not_established", "proof": proof}
    if proof["result"] != "confirmed":
        proof["result"] = "not_at_these_inputs"
    return {**worst, "proof": proof}


def _program(call: Call, located: Located, root: str, options: Options) -> Program:
    inputs = [Value("", words, each) for words, each in zip(call.words, call.args, strict=False)]
    rest = call.words[len(call.args) :]
    inputs += [
        Value(name, words, each)
        for words, (name, each) in zip(rest, call.kwargs.items(), strict=False)
    ]
    return Program(Target(located.qualname, lambda: call.function, root), inputs, options)


def _badness(answer: dict[str, Any]) -> int:
    return ["not_established", "clean", "degraded", "broken"].index(answer["verdict"])


def shows(answer: dict[str, Any], file: str, lines: list[int], root: str) -> bool:
    """Whether what makes the verdict stands on one of `lines`, or is cured there."""
    wanted = {f"{os.path.realpath(file)}:{line}" for line in lines}
    found = [answer.get("first_bad") or {}, *answer["findings"]]
    sources = [each["source"] for each in found if each.get("source")]
    sources += (answer.get("cure") or {}).get("lines", [])
    return answer["verdict"] in ("broken", "degraded") and any(
        os.path.realpath(os.path.join(root, each)) in wanted for each in sources
    )
