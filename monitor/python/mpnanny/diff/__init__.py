"""auto_diff: where FP32 and FP16, BF16 or FP8 part, operator by operator, measured against FP64.

One target runs twice under the shadow engine (../shadow): as it is, in FP32, and under a policy in
the low precision. Both runs follow every operator in FP64, so each has its own reference and what
it draws at random does not matter.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from ..compiled.against_eager import MOST_SECONDS as COMPILE_SECONDS
from ..compiled.against_eager import AgainstEager
from ..compiled.answer import answer_of
from ..compiled.outcome import run
from ..programs.compiled import running_eagerly, uncompiled
from ..programs.cuda_on_cpu import CudaOnCpu
from ..programs.eight_bit import GRANULARITIES
from ..programs.policy import COMPILE, LOW, POLICIES, Policy, full_precision, on_this_device
from ..programs.problem import Problem, fails_in_full_precision, no_cuda
from ..programs.program import Options, Program
from ..programs.specification import in_dtype, make_inputs, values_of
from ..programs.target import Target, find_target, load_callable
from .answer import NOTHING_LOW, Answer, number
from .inputs_by_trial import INPUTS_MADE, inputs_for
from .modules import capture
from .proof import MOST_SECONDS as PROOF_SECONDS
from .proof import badness, is_worst, prove
from .quick import captured_answer, quick_answer
from .said_precision import SaidPrecision, said_precision
from .shadowed import Measured, measure
from .verdict import Verdict

MORE_DRAWS = 2  # of inputs, where a compiled program has not parted with the first
MOST_SECONDS = 20.0  # after which no other policy is tried
_PRECISIONS = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "fp8"}

__all__ = ["Problem", "auto_diff", "capture", "diff_request"]


def auto_diff(
    model: Any,
    sample: Any,
    target_dtype: torch.dtype = torch.bfloat16,
    policy: str = "cuda-autocast",
    *,
    backward: bool = True,
    loss: Any = None,
    loss_scale: float | None = None,
    steps: int = 0,
    optimizer: str = "adamw",
    lr: float = 1e-3,
    fp8: str = "tensor",
    rel_warn: float | None = None,
    rel_error: float | None = None,
) -> dict[str, Any]:
    """Where `model` (an nn.Module or a function) loses precision on `sample`.

    `sample` is a tensor, a tuple (positional arguments) or a dict (keyword arguments).
    `target_dtype` is torch.float16, torch.bfloat16, or torch.float8_e4m3fn for FP8 linear layers
    (simulated, gradients in E5M2). `policy`: `cuda-autocast` (what torch.autocast does on CUDA,
    whatever the machine has), `cpu-autocast`, `pure` (everything in the dtype), or `compile`: the
    model as it is beside torch.compile's, whatever `target_dtype` is. `loss` is called with the
    result. The model is copied; nothing of it, of the sample or of torch's generators is
    changed. Returns the dict that the tool `auto_diff` returns; raises Problem.
    """
    if target_dtype not in _PRECISIONS:
        raise Problem(
            f"{target_dtype} is no dtype to compare.", "Known: " + ", ".join(map(str, _PRECISIONS))
        )
    name = type(model).__name__ if isinstance(model, nn.Module) else getattr(model, "__name__", "")
    device = _device_of(model, sample)
    options = Options(
        backward=backward,
        loss=loss,
        loss_scale=loss_scale,
        steps=steps,
        optimizer=optimizer,
        lr=lr,
        device=device,
    )
    state = torch.get_rng_state()
    try:
        made = uncompiled(model) if policy == COMPILE else model
        program = Program(Target(name, lambda: made, ""), values_of(sample), options)
        if policy == COMPILE:
            return compiled_answer(program)
        return _diff(
            program, Policy(policy, _PRECISIONS[target_dtype], device, fp8), rel_warn, rel_error
        )
    finally:
        torch.set_rng_state(state)


def _device_of(model: Any, sample: Any) -> str:
    first = next(model.parameters(), None) if isinstance(model, nn.Module) else sample
    return first.device.type if isinstance(first, torch.Tensor) else "cpu"


def diff_request(request: dict[str, Any], say: Any = lambda done, what: None) -> dict[str, Any]:
    """The answer to a request of the tool. `say(done, what)`: progress, of 1. Raises Problem."""
    captures = request.get("captures")
    if captures:
        return captured_answer(*_two(captures))
    if request.get("policy") == COMPILE:
        return _compiled(request, say)
    said = SaidPrecision() if _is_chosen(request) else said_precision(_file_of(request))
    precision, policies = _chosen(request, said)
    answer = _worst_of(policies, lambda policy: _answered(request, say, precision, policy))
    if not _is_chosen(request):
        answer["chosen_by"] = said.lines
    return answer


def _worst_of(policies: Sequence[str], answered: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The answer under the policy that does most harm, the first of equal ones; with several, which
    were tried. One that is broken, or confirms a suspicion, needs no other; one that takes long is
    the last.
    """
    began = time.monotonic()
    answers: dict[str, dict[str, Any]] = {}
    for policy in policies:
        try:
            answers[policy] = answered(policy)
        except Problem:
            if not answers:
                raise
            break
        if is_worst(answers[policy]) or time.monotonic() - began > MOST_SECONDS:
            break
    worst = max(answers.values(), key=badness)
    if len(policies) > 1:
        worst["policies_tried"] = list(answers)
    return worst


def _is_chosen(request: dict[str, Any]) -> bool:
    return bool(request.get("dtype")) and bool(request.get("policy"))


def _file_of(request: dict[str, Any]) -> str:
    words = next((request[key] for key in ("model", "function", "finding") if request.get(key)), "")
    return str(words).rpartition(":")[0]


def compiled_answer(
    program: Program, say: Any = lambda done, what: None, seconds: float = COMPILE_SECONDS
) -> dict[str, Any]:
    """What torch.compile makes of a program beside the program itself. Raises Problem."""
    device = program.options.device
    with on_this_device(device):
        return answer_of(AgainstEager(program, say, seconds).compare())


def _compiled(request: dict[str, Any], say: Any) -> dict[str, Any]:
    if request.get("finding"):
        raise Problem(
            "`finding` looks for a loss of precision, not for a compiler's.",
            "Name the function around the line as `function`, with policy compile.",
        )
    device = _device(request)
    seconds = min(float(request.get("seconds") or COMPILE_SECONDS), COMPILE_SECONDS)
    with contextlib.ExitStack() as stack:
        stand_in = CudaOnCpu() if device == "cpu" and not torch.cuda.is_available() else None
        with stand_in or contextlib.nullcontext():
            options = _options(request, device)
            words, seed = list(request.get("input") or []), int(request.get("seed") or 0)
            inputs = make_inputs(words, seed)
            say(0.0, "importing the file")
            target = find_target(request)
            made = not inputs and "function" in request
            if made:
                inputs = inputs_for(target, str(request.get("root") or ""))
            if stand_in is not None:
                run(Program(target, inputs, options))  # whether it asks for CUDA
        # Under a mode a program is compiled in other pieces, so there is one only where it must be.
        if stand_in is not None and stand_in.asked:
            stack.enter_context(stand_in)
        began = time.monotonic()
        answer = compiled_answer(Program(target, inputs, options), say, seconds)
        # An overflow or a choice at an edge shows with some inputs only.
        for more in range(1, MORE_DRAWS + 1 if any("~" in word for word in words) else 1):
            left = seconds - (time.monotonic() - began)
            if answer["verdict"] != "clean" or left < 2 * answer["seconds"]["compiled"]:
                break
            program = Program(target, make_inputs(words, seed + more), options)
            answer = compiled_answer(program, say, left)
            if answer["verdict"] != "clean":
                answer["limits"].append(
                    f"Shown with the inputs that seed {seed + more} draws; those of seed {seed} do"
                    " not part."
                )
        if made and inputs:
            answer["limits"].append(INPUTS_MADE)
        return answer


def _device(request: dict[str, Any]) -> str:
    device = str(request.get("device") or "cpu")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise no_cuda("mpnanny.auto_diff(model, sample)")
    return device


def _options(request: dict[str, Any], device: str) -> Options:
    loss = request.get("loss")
    return Options(
        backward=request.get("backward") is not False,
        loss=None if not loss else load_callable(str(loss), str(request.get("root") or "")),
        loss_scale=request.get("loss_scale"),
        steps=int(request.get("steps") or 0),
        optimizer=str(request.get("optimizer") or "adamw"),
        lr=float(request.get("lr") or 1e-3),
        device=device,
    )


def _answered(request: dict[str, Any], say: Any, precision: str, policy: str) -> dict[str, Any]:
    device = _device(request)
    with contextlib.ExitStack() as stack:
        if device == "cpu" and not torch.cuda.is_available():
            stack.enter_context(CudaOnCpu())
        root = str(request.get("root") or "")
        seed = int(request.get("seed") or 0)
        options = _options(request, device)
        chosen = Policy(policy, precision, device, str(request.get("fp8") or "tensor"))
        limits = (request.get("rel_warn"), request.get("rel_error"))
        if request.get("finding"):
            options.rounded = chosen.low if policy == "pure" else None
            say(0.0, "importing the file, and trying its function")
            seconds = min(float(request.get("seconds") or PROOF_SECONDS), PROOF_SECONDS)
            return _prove(str(request["finding"]), root, options, chosen, seed, seconds)
        inputs = make_inputs(list(request.get("input") or []), seed)
        say(0.0, "importing the file")
        target = find_target(request)
        made = not inputs and "function" in request
        if made:
            inputs = inputs_for(target, root)
        program = Program(target, inputs, options)
        stack.enter_context(running_eagerly())
        if request.get("level") == "modules":
            return quick_answer(program, chosen)
        answer = _diff(program, chosen, *limits, say)
        if made and NOTHING_LOW in answer["limits"]:  # a layer before it would give 16 bits
            program = Program(target, in_dtype(inputs, chosen.low), options)
            answer = _diff(program, chosen, *limits, say)
        if made and inputs:
            answer["limits"].append(INPUTS_MADE)
        return answer


def _prove(
    words: str, root: str, options: Options, policy: Policy, seed: int, seconds: float
) -> dict[str, Any]:
    low = None if policy.name == "pure" else policy.low
    return prove(
        words, root, options, lambda each: measured_under(each, policy), seed, low, seconds
    )


def measured_under(program: Program, policy: Policy) -> dict[str, Any] | None:
    """None where what it gives in FP32 is not finite. Raises Problem."""
    full = _measure_full(program)
    if any(each.found.bad for each in full.outputs):
        return None
    return _measure_low(program, policy, full, None, None)


def _two(captures: list[str]) -> tuple[str, str]:
    if len(captures) != 2:
        raise Problem("Two captures are compared.", "Give the paths of two files.")
    return captures[0], captures[1]


def _chosen(request: dict[str, Any], said: SaidPrecision) -> tuple[str, tuple[str, ...]]:
    """What the request says, else what the file does, else BF16 as autocast has it on CUDA: the
    precision, and the policies to try.
    """
    precision = str(request.get("dtype") or said.dtype or "bf16")
    policies = () if precision == "fp8" else said.policies
    asked = str(request.get("policy") or "")
    policies = (asked,) if asked else policies or ("cuda-autocast",)
    fp8 = str(request.get("fp8") or "tensor")
    for word, known in ((precision, LOW), (policies[0], POLICIES), (fp8, GRANULARITIES)):
        if word not in known:
            raise Problem(f"'{word}' is not known.", "Known are " + ", ".join(known) + ".")
    if precision == "fp8" and policies[0] != "cuda-autocast":
        raise Problem("FP8 is simulated in autocast regions.", "Use the policy cuda-autocast.")
    return precision, policies


def _diff(
    program: Program,
    policy: Policy,
    rel_warn: float | None,
    rel_error: float | None,
    say: Any = lambda done, what: None,
) -> dict[str, Any]:
    say(0.05, "in FP32")
    full = _measure_full(program)
    say(0.45, f"in {policy.precision}")
    return _measure_low(program, policy, full, rel_warn, rel_error, say)


def _measure_low(
    program: Program,
    policy: Policy,
    full: Measured,
    rel_warn: float | None,
    rel_error: float | None,
    say: Any = lambda done, what: None,
) -> dict[str, Any]:
    low = policy.low if policy.name == "pure" else None
    with policy.installed():
        try:
            scale = program.find_scale(low, policy.region, policy.low is torch.float16)
        except Problem:
            raise
        except Exception:
            scale = 1.0  # the measured run shows what is raised
        measured = measure(program, low, policy.region, scale, full)
        measured.dtype = policy.low
        verdict = Verdict(full, measured, rel_warn, rel_error)
        answer = Answer(program, policy, verdict).json()
        if "gradients" in answer:
            answer["gradients"]["loss_scale"] = scale
        if program.options.steps and measured.raised is None:
            say(0.8, "training steps")
            answer["steps"] = _train(program, policy, low, scale)
    return answer


def _measure_full(program: Program) -> Measured:
    device = program.options.device
    with full_precision(device):
        made = measure(program, None, contextlib.nullcontext, 1.0)
        if made.raised is not None and program.may_widen:
            program.may_widen = False  # it takes 16-bit inputs only
            made = measure(program, None, contextlib.nullcontext, 1.0)
        if made.raised is not None and program.inputs_need_gradient:
            program.inputs_need_gradient = False  # it writes its inputs, which leaves do not allow
            made = measure(program, None, contextlib.nullcontext, 1.0)
    if made.raised is not None:
        raise fails_in_full_precision(program, made.raised) from made.raised
    return made


def _train(program: Program, policy: Policy, low: Any, scale: float) -> list[dict[str, Any]]:
    with full_precision(program.options.device):
        plain = list(program.train(None, contextlib.nullcontext, 1.0, widened=True))
    lossy = list(program.train(low, policy.region, scale))
    return [
        {"step": step, "fp32": number(a), "low": number(b)}
        for step, (a, b) in enumerate(zip(plain, lossy, strict=True))
    ]
