"""Puts suspected lines of a project to the test, all within one limit of time: proven, not at these
inputs, or not tried and why.

First the project's own programs run and the calls of the suspected functions are caught
(caught.py): these are the arguments that the training gives. What no program comes to, or what its
first call does not show, is tried with inputs that are made for it, as `finding` is (proof.py).
Every try has a process of its own.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import time
from collections.abc import Callable
from typing import Any

import torch

from ..programs.loading import load_file
from ..programs.policy import Policy
from ..programs.problem import Problem, stopped
from ..programs.program import Options
from . import measured_under
from .around import chain_to, lines_of
from .caught import Caught, Wanted, catch
from .entry_points import Project
from .forked import Tell, forked
from .proof import NO_FINITE, shows
from .said_precision import said_precision

MOST_PROGRAMS = 4  # that are run
PROGRAMS_PART = 0.5  # of the time, that they may take together
LEAST_SECONDS = 5.0  # for one suspect, where so much is left
LEAST_LEFT = 0.5
MOST_ROUNDING = 0.04  # an error from which on operators are findings (docs/auto_diff.md)
PART_TO_TRY = 0.8  # of a suspect's time: the try that runs when it is over still comes to its end
_ANY_DTYPE = ("fp16", "bf16")  # where the code says none
# What a CPU refuses and CUDA may run: FFTs of FP16, kernels that are there for FP32 only.
_LACKS = re.compile(r"Unsupported dtype Half|not implemented for|\bCPU\b", re.IGNORECASE)

Say = Callable[[float, str], None]


class _Suspect:
    def __init__(self, file: str, line: int) -> None:
        self.file = os.path.realpath(file)
        self.line = line
        self.lines: list[int] = [line]
        self.functions: list[tuple[str, int]] = []  # innermost first: file, first line
        self.proof: dict[str, Any] | None = None
        self.why = ""  # why the program's own call shows nothing
        with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError):
            with open(self.file, "rb") as source:
                path = chain_to(ast.parse(source.read()), line)
            self.lines = lines_of(path, line)
            self.functions = [
                (self.file, min([each.lineno, *(one.lineno for one in each.decorator_list)]))
                for each in reversed(path)
                if isinstance(each, ast.FunctionDef)
            ]

    def precisions(self) -> list[tuple[str, str]]:
        """Dtype and policy: what the file says, else both dtypes under autocast."""
        said = said_precision(self.file)
        policies = said.policies or ("cuda-autocast",)
        return [(each, policies[0]) for each in ([said.dtype] if said.dtype else _ANY_DTYPE)]


def prove_all(request: dict[str, Any], say: Say) -> dict[str, Any]:
    """`suspects`: each with `file` and `line`. `files`, `training`: the project's, and those of
    them in which gradients are computed. `seconds`: for all together. A proof for each suspect, in
    their order.
    """
    deadline = time.monotonic() + float(request["seconds"])
    _limit_memory(int(request.get("memory_mb") or 0))
    torch.set_num_threads(1)  # of several, a fork has one
    root = str(request.get("root") or "")
    suspects = [_Suspect(str(each["file"]), int(each["line"])) for each in request["suspects"]]
    project = Project(list(request.get("files") or []), list(request.get("training") or []))
    say(0.0, "running the project's programs")
    _run_programs(suspects, project, root, deadline)
    _try_made_inputs(suspects, root, deadline, say)
    return {"proofs": [_told(each, request["seconds"]) for each in suspects]}


def _limit_memory(most_mb: int) -> None:
    """Of each process: what needs more fails by itself, and not all with it."""
    if most_mb:
        import resource

        most = int(0.7 * most_mb) << 20
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _told(suspect: _Suspect, seconds: float) -> dict[str, Any]:
    proof = suspect.proof or {"verdict": "not_tried", "why": f"the {seconds:g} s were over"}
    if proof["verdict"] == "not_tried" and suspect.why:
        proof["why"] = f"{suspect.why}; with made inputs: {proof['why']}"
    return proof


# --- the project's programs ---


def _run_programs(suspects: list[_Suspect], project: Project, root: str, deadline: float) -> None:
    until = time.monotonic() + PROGRAMS_PART * (deadline - time.monotonic())
    reaching: dict[str, list[int]] = {}
    for at, suspect in enumerate(suspects):
        for entry in project.entry_points(suspect.file) if suspect.functions else []:
            reaching.setdefault(entry, []).append(at)
    for entry in list(reaching)[:MOST_PROGRAMS]:
        open_ones = [at for at in reaching[entry] if suspects[at].proof is None]
        seconds = until - time.monotonic()
        if not open_ones or seconds < 1:
            continue
        _run_program(entry, open_ones, suspects, root, seconds)


def _run_program(
    entry: str, open_ones: list[int], suspects: list[_Suspect], root: str, seconds: float
) -> None:
    shown = os.path.relpath(entry, root) if root else entry
    ended: list[str] = []

    def compare(at: int, caught: Caught) -> dict[str, Any]:
        return _of_call(suspects[at], caught, root, shown)

    def work(tell: Tell) -> None:
        wanted = [Wanted(at, suspects[at].functions) for at in open_ones]
        catch(entry, root, wanted, compare, tell, seconds)

    def took(line: dict[str, Any]) -> None:
        if "entry" in line:
            ended.append(str(line["entry"]))
        elif "proof" in line:
            suspects[line["at"]].proof = line["proof"]
        else:
            suspects[line["at"]].why = line["why"]

    how = forked(work, seconds, took, is_group=True)
    for at in open_ones:
        suspect = suspects[at]
        if suspect.proof is None and not suspect.why:
            end = f"ended with {ended[0]}" if ended and ended[0] else ""
            end = end or (how and f"did not come to it: {how}") or "never calls it with tensors"
            suspect.why = f"its entry point {shown} {end}"


def _of_call(suspect: _Suspect, caught: Caught, root: str, entry: str) -> dict[str, Any]:
    """What the call that was caught shows."""
    options = Options(backward=caught.with_gradients, caught=True)
    hypothetical = [Policy(policy, dtype, "cpu") for dtype, policy in suspect.precisions()]
    given = {"entry": entry, "input": caught.words, "tried": 1}
    if caught.low is None and caught.beside_low:
        return {"verdict": "not_at_these_inputs", "in_low": 0, "is_final": True, **given}
    worst: dict[str, Any] | None = None
    why = ""
    for policy, low in caught.policies(hypothetical):
        try:
            answer = measured_under(caught.program(options, low), policy)
        except Problem as problem:
            why = problem.message
            continue
        except Exception as error:
            told = stopped(error, root)
            why = told.message if told else f"{type(error).__name__}: {error}"[:300]
            continue
        if answer is None:
            why = "its result in FP32 is not finite"
            continue
        proof = _proof_of(answer, suspect, root, shows(answer, suspect.file, suspect.lines, root))
        if proof["verdict"] == "not_tried":
            why = proof["why"]
            continue
        proof |= given
        if proof["verdict"] == "proven":
            return proof
        worst = worst or proof
    return worst or {
        "verdict": "not_tried",
        "why": f"called by {entry}, it cannot be compared: {why}",
    }


# --- made inputs ---


def _try_made_inputs(suspects: list[_Suspect], root: str, deadline: float, say: Say) -> None:
    """In a process that imports each file once, and forks for each suspect. Where that process
    itself is ended by a file, the next one goes on behind it.
    """
    open_ones = [at for at, each in enumerate(suspects) if _is_open(each)]
    open_ones.sort(key=lambda at: suspects[at].proof is not None)  # what nothing is known of first
    now: list[int] = []

    def work(tell: Tell) -> None:
        for done, at in enumerate(open_ones):
            left = deadline - time.monotonic()
            if left < LEAST_LEFT:
                return
            tell({"at": at})
            share = max(LEAST_SECONDS, 2 * left / (len(open_ones) - done))
            _load(suspects[at].file, root)
            tell({"at": at, "proof": _of_made(suspects[at], root, min(left, share))})

    def took(line: dict[str, Any]) -> None:
        now[:] = [line["at"]]
        if "proof" in line:
            _settle(suspects[line["at"]], line["proof"])
            open_ones.remove(line["at"])
            say(1 - len(open_ones) / len(suspects), "trying suspects")

    while open_ones and time.monotonic() < deadline:
        how = forked(work, deadline - time.monotonic() + 1, took, is_group=True)
        if not how or not now or now[0] not in open_ones:
            return
        open_ones.remove(now[0])
        if time.monotonic() < deadline:
            _settle(suspects[now[0]], {"verdict": "not_tried", "why": how})


def _is_open(suspect: _Suspect) -> bool:
    """What the program itself computes in FP32 is not tried in 16 bits."""
    proof = suspect.proof
    return proof is None or (proof["verdict"] != "proven" and not proof.get("is_final"))


def _settle(suspect: _Suspect, proof: dict[str, Any]) -> None:
    if suspect.proof is None or proof["verdict"] == "proven":
        suspect.proof = proof


def _load(file: str, root: str) -> None:
    with contextlib.suppress(Problem):
        load_file(file, root)


def _of_made(suspect: _Suspect, root: str, seconds: float) -> dict[str, Any]:
    got: list[dict[str, Any]] = []
    of_it = PART_TO_TRY * seconds
    how = forked(lambda tell: tell(_made(suspect, root, of_it)), seconds + 1, got.append)
    if got and not how:
        return got[-1]
    return {"verdict": "not_tried", "why": how or "nothing came of it"}


def _made(suspect: _Suspect, root: str, seconds: float) -> dict[str, Any]:
    from . import diff_request

    precisions = suspect.precisions()
    best: dict[str, Any] | None = None
    for dtype, policy in precisions:
        request = {
            "finding": f"{suspect.file}:{suspect.line}",
            "root": root,
            "dtype": dtype,
            "policy": policy,
            "seconds": seconds / len(precisions),
        }
        try:
            answer = diff_request(request)
        except Problem as problem:
            return {"verdict": "not_tried", "why": problem.message}
        except Exception as error:
            told = stopped(error, root)
            why = told.message if told else f"{type(error).__name__}: {error}"[:300]
            return {"verdict": "not_tried", "why": why}
        tried = answer["proof"]
        if tried["result"] == "cannot_be_run_alone":
            why = "; ".join(tried["missing"])
            if why == NO_FINITE:
                why = "no inputs were found whose result in FP32 is finite"
            return best or {"verdict": "not_tried", "why": why or "it cannot be run alone"}
        confirmed = tried["result"] == "confirmed"
        proof = _proof_of(answer, suspect, root, confirmed)
        if proof["verdict"] == "not_tried":
            best = best or proof
            continue
        proof |= {"input": tried.get("input", []), "tried": len(tried["tried"])}
        if proof["verdict"] == "proven":
            return proof
        if best is None or (not best.get("in_low") and proof["in_low"]):
            best = proof
    assert best is not None
    return best


# --- the answer ---


def _proof_of(
    answer: dict[str, Any], suspect: _Suspect, root: str, confirmed: bool
) -> dict[str, Any]:
    found = [answer.get("first_bad") or {}, *answer["findings"]]
    at_line = [each for each in found if shows_at(each, suspect, root)]
    shown = (at_line or found)[0]
    if confirmed and _LACKS.search(str(shown.get("error", ""))):
        why = f"the CPU, which stands in for the device, does not run it: {shown['error']}"
        return {"verdict": "not_tried", "why": why}
    confirmed = confirmed and not _is_rounding_alone(shown)
    proof: dict[str, Any] = {
        "verdict": "proven" if confirmed else "not_at_these_inputs",
        "dtype": answer["dtype"],
        "policy": answer["policy"],
        "in_low": answer["operators_in_low"],
    }
    if confirmed:
        proof["finding"] = shown
        if "cure" in answer and shown is found[0]:
            proof["cure"] = answer["cure"]
    return proof


def _is_rounding_alone(finding: dict[str, Any]) -> bool:
    """Of whole numbers that changed: nothing that they get to is off by more than a rounding, so
    that they may be no indices but values that happened to be whole.
    """
    if finding.get("what") != "integers" or "grows" in finding:
        return False
    errors = [
        finding.get("accumulated"),
        *(each.get("error") for each in finding.get("reaches", [])),
    ]
    return all(isinstance(each, float) and each < MOST_ROUNDING for each in errors)


def shows_at(finding: dict[str, Any], suspect: _Suspect, root: str) -> bool:
    return shows({"verdict": "broken", "findings": [finding]}, suspect.file, suspect.lines, root)
