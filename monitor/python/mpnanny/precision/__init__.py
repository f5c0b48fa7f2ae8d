"""choose_precision: which layer in which format, found by measuring and tried."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from ..programs.compiled import running_eagerly
from ..programs.cuda_on_cpu import CudaOnCpu
from ..programs.eight_bit import GRANULARITIES
from ..programs.policy import full_precision
from ..programs.problem import Problem, fails_in_full_precision, no_cuda
from ..programs.program import Options, Program
from ..programs.specification import make_inputs, values_of
from ..programs.target import Target, find_target, load_callable
from .as_code import code_for
from .batches import Batches, of_step
from .candidates import WAYS, Candidate, Question, measure_way, ways_for
from .devices import Device, find_device, known_devices, this_machine
from .islands import LEAST_TOLERANCE
from .plan import GOALS, best, plan_json
from .states import measure_states
from .trial import Trainings, Trial
from .units import look
from .whole_numbers import WholeNumbers

__all__ = ["Problem", "choose_precision", "choose_request", "known_devices"]

Say = Callable[[float, str], None]
_LOCAL = ["fp16", "bf16", "tf32", "e4m3", "e4m3-block", "e5m2"]


def choose_precision(
    model: Any,
    sample: Any,
    *,
    device: str = "",
    goal: str = "balanced",
    ways: list[str] | None = None,
    loss: Any = None,
    try_steps: int = 0,
    batches: Callable[..., Any] | None = None,
    optimizer: str = "adamw",
    lr: float = 1e-3,
    tolerance: float = LEAST_TOLERANCE,
    seconds: float = 60.0,
) -> dict[str, Any]:
    """Which layers of `model` (an nn.Module) may run in FP16, BF16, TF32 or FP8 on `device`.

    `sample` is a tensor, a tuple (positional arguments) or a dict (keyword arguments). `device`: a
    name of `known_devices()`, `cuda` for this machine's GPU, by default this machine. `goal`:
    balanced, safest, fastest, smallest. `ways`: only these of fp32, tf32, bf16-autocast,
    fp16-autocast, bf16-weights, fp8-linear. `loss` is called with the result. `try_steps`: train so
    many steps in FP32, in FP32 with another seed and with the plan, on `batches(step)` or
    `batches()` (by default on `sample` again and again). `tolerance`: relative error that a plan
    may have in any case; `seconds`: that each way may take.
    The model is copied. Returns the dict that the tool `choose_precision` returns; raises Problem.
    """
    first = next(model.parameters(), None) if isinstance(model, torch.nn.Module) else None
    options = Options(
        loss=loss,
        optimizer=optimizer,
        lr=lr,
        device="cpu" if first is None else first.device.type,
    )
    target = Target(type(model).__name__, lambda: model, "")
    state = torch.get_rng_state()
    try:
        program = Program(target, values_of(sample), options)
        question = Question(_device(device), tolerance, seconds, steps=try_steps or None)
        data = None if batches is None else of_step(batches)
        return _choose(program, question, goal, ways or [], try_steps, data)
    finally:
        torch.set_rng_state(state)


def choose_request(request: dict[str, Any], say: Say = lambda done, what: None) -> dict[str, Any]:
    """The answer to a request of the tool. `say(done, what)`: progress, of 1. Raises Problem."""
    goal = str(request.get("goal") or "balanced")
    fp8 = str(request.get("fp8") or "tensor")
    for word, known in ((goal, GOALS), (fp8, GRANULARITIES)):
        if word not in known:
            raise Problem(f"'{word}' is not known.", "Known are " + ", ".join(known) + ".")
    root = str(request.get("root") or "")
    loss, batches = request.get("loss"), request.get("batches")
    steps = int(request.get("try") or 0)
    device = _device(str(request.get("device") or ""))
    has_cuda = torch.cuda.is_available()
    say(0.0, "importing the file")
    with contextlib.ExitStack() as stack:
        if not has_cuda:
            stack.enter_context(CudaOnCpu())
        options = Options(
            # ROCm calls itself cuda in torch.
            device="cuda" if has_cuda and device.kind in ("cuda", "rocm") else "cpu",
            loss=None if not loss else load_callable(str(loss), root),
            optimizer=str(request.get("optimizer") or "adamw"),
            lr=float(request.get("lr") or 1e-3),
        )
        data = None if not batches else of_step(load_callable(str(batches), root))
        words = list(request.get("input") or [])
        if data is not None and not words:
            inputs = values_of(data(0))
        else:
            inputs = make_inputs(words, int(request.get("seed") or 0))
        program = Program(find_target(request), inputs, options)
        question = Question(
            device,
            float(request.get("tolerance") or LEAST_TOLERANCE),
            float(request.get("seconds") or 60.0),
            fp8,
            steps or None,
        )
        stack.enter_context(running_eagerly())
        return _choose(program, question, goal, list(request.get("ways") or []), steps, data, say)


def _part_of(say: Say, at: int, ways: int) -> Say:
    """Of one of the ways: these take most of the time, a pass of the model for each unit."""
    return lambda done, what: say(0.05 + 0.6 * (at + done) / ways, what)


def _device(words: str) -> Device:
    if words == "cuda" and not torch.cuda.is_available():
        raise no_cuda("mpnanny.choose_precision(model, sample)")
    return find_device(words) if words and words not in ("this", "cuda") else this_machine()


def _choose(
    program: Program,
    question: Question,
    goal: str,
    names: list[str],
    steps: int,
    batches: Batches | None,
    say: Say = lambda done, what: None,
) -> dict[str, Any]:
    for name in names:
        if name not in {word for way in WAYS for word in (way.name, way.precision)}:
            known = ", ".join(way.name for way in WAYS)
            raise Problem(f"'{name}' is no way to train.", f"Known are {known}.")
    say(0.02, "in FP32")
    attempt = program.attempt(None)
    if program.surplus and program.options.loss is None:
        raise Problem(
            f"{program.target.name} takes fewer inputs than a batch has.",
            "Give `loss` (file.py:name): what the model does not take, such as labels, goes to it "
            "behind the model's result.",
        )
    if attempt.module is None:
        raise Problem(
            f"{program.target.name} is no module: formats are chosen for a model's layers.",
            "Give `model` or `config`; for a function ask auto_diff.",
        )
    if any(each.requires_grad for each in attempt.module.parameters()):
        program.inputs_need_gradient = False  # training uses the weights' gradients
        attempt = program.attempt(None)
    try:
        with full_precision(program.options.device):
            anatomy = look(program, attempt, _LOCAL)
    except Problem:
        raise
    except Exception as error:
        raise fails_in_full_precision(program, error) from error
    if not anatomy.units:
        raise Problem(
            f"No operator of {program.target.name} could be followed: {anatomy.trouble}.",
            "Give `model` or `config` and its inputs.",
        )
    ways, without = ways_for(question.device, [*names, "fp32"] if names else [])
    whole_numbers = WholeNumbers(program)
    candidates = []
    for at, way in enumerate(ways):
        candidates.append(
            measure_way(
                way, program, anatomy, question, whole_numbers, _part_of(say, at, len(ways))
            )
        )
    say(0.7, "states")
    states = measure_states(program)
    trials: dict[str, Trial] = {}
    if steps:
        trainings = Trainings(
            program, steps, batches, lambda done, what: say(0.75 + 0.25 * done, what)
        )
        trials = _tried(trainings, candidates, goal)
    chosen = best(candidates, goal)
    answer = plan_json(
        anatomy, candidates, without, states, question, goal, program, trials, whole_numbers.own
    )
    reduce_in_fp32 = any(
        each.state in ("communication", "gradient_accumulation") and each.keep_fp32
        for each in states
        if each.format == "bf16"
    )
    kind = question.device.kind
    autocast = {"rocm": "cuda"}.get(kind, kind)
    answer["code"] = [
        {"library": each.library, "language": each.language, "text": each.text}
        for each in code_for(chosen, reduce_in_fp32, autocast)
    ]
    return answer


def _tried(trainings: Trainings, candidates: list[Candidate], goal: str) -> dict[str, Trial]:
    """By way: the plans in the order of `goal`, until one is not refuted, which is FP32 at last.
    Those that are refuted are no longer established.
    """
    trials: dict[str, Trial] = {}
    while True:
        chosen = best(candidates, goal)
        trial = trials[chosen.way.name] = trainings.try_plan(chosen)
        if not trial.refutes or chosen.way.precision == "fp32":
            return trials
        chosen.established = False
