"""The ways in which a model could be trained, each measured: FP32, TF32, autocast in BF16 and FP16,
everything in BF16, and FP8 linear layers.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..operators.places import pass_through
from ..programs.policy import Policy, full_precision
from ..programs.problem import Problem
from ..programs.program import Attempt, Program, Region
from .assignment import Assignment
from .costs import Memory, Work, count_work, memory_of, seconds
from .devices import Device
from .effect import Effect, Trials, compare_passes
from .islands import LEAST_TOLERANCE, IslandSearch, find_islands
from .scaler import Scaling, first_scale, scaling_for
from .tf32 import tf32_products
from .units import Anatomy
from .whole_numbers import Changed, KeptWhole, WholeNumbers

pass_through(__file__)


Say = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Way:
    """`base`: as Assignment has it. `needs`: the format that matrix units should take."""

    name: str
    precision: str  # fp32 | tf32 | fp16 | bf16 | fp8
    base: str
    needs: str


WAYS = (
    Way("fp32", "fp32", "", "fp32"),
    Way("tf32", "tf32", "", "tf32"),
    Way("bf16-autocast", "bf16", "autocast", "bf16"),
    Way("fp16-autocast", "fp16", "autocast", "fp16"),
    Way("bf16-weights", "bf16", "pure", "bf16"),
    Way("fp8-linear", "fp8", "fp8", "fp8"),
)


@dataclass(slots=True)
class Candidate:
    """`islands` stay in FP32 (of FP8: `fp8_left_out` stay in BF16, `islands` in FP32). `found` is
    None where there is nothing to choose. `seconds`: by the roofline model of the device. `whole`:
    of islands that are there for whole numbers, what they would change.
    """

    way: Way
    error: Effect
    all_low: Effect
    established: bool
    work: Work
    memory: Memory
    seconds: float | None
    islands: list[str]
    fp8_left_out: list[str]
    found: IslandSearch | None = None
    scaling: Scaling | None = None
    whole: dict[str, Changed] = field(default_factory=dict)
    changed: list[Changed] = field(default_factory=list)  # whole numbers that no island keeps


@dataclass(frozen=True, slots=True)
class Question:
    """`least`: how wrong outputs, loss and gradients may be (relative) without further ado.
    `seconds`: that one way may take.
    """

    device: Device
    least: float = LEAST_TOLERANCE
    seconds: float = math.inf
    fp8: str = "tensor"
    steps: int | None = None  # of the training that is planned


def ways_for(device: Device, names: Sequence[str] = ()) -> tuple[list[Way], list[str]]:
    """The ways that `device` has matrix units for, or of which that is not known; and the names of
    those that it has none for. `names`: only these.
    """
    chosen, without = [], []
    for way in WAYS:
        if names and way.name not in names and way.precision not in names:
            continue
        if device.has(way.needs) is False and way.needs != "fp32":
            without.append(way.name)
        else:
            chosen.append(way)
    return chosen, without


def measure_way(
    way: Way,
    program: Program,
    anatomy: Anatomy,
    question: Question,
    whole_numbers: WholeNumbers,
    say: Say = lambda done, what: None,
) -> Candidate:
    """Measures `way` on `program`, whose units are those of `anatomy` and whose whole numbers are
    looked at by `whole_numbers`. `say(done, what)`: before each pass.
    """
    say(0.0, way.name)
    if way.precision == "fp32":
        return _full(way, program, question)
    if way.precision == "tf32":
        return _tf32(way, program, question)
    name = "pure" if way.base == "pure" else "cuda-autocast"
    policy = Policy(name, way.precision, program.options.device, question.fp8)
    deadline = time.monotonic() + question.seconds
    with policy.installed():
        trials = Trials(program, policy, way.base)
        most = 2 * len(anatomy.units) + 2  # passes, about: all, each alone, a search
        trials.say = lambda: say(
            min(trials.passes / most, 0.99), f"{way.name}, pass {trials.passes} of about {most}"
        )
        if way.precision == "fp16":
            trials.scale_for = lambda low: first_scale(anatomy.units[name] for name in low)
        units = list(anatomy.units)
        if way.base == "fp8":
            return _eight_bit(
                way, program, trials, policy, anatomy, question, whole_numbers, deadline
            )
        found = find_islands(
            units,
            trials.run,
            least=question.least,
            deadline=deadline,
            past_errors=way.base
            != "pure",  # code that cannot take 16-bit weights is for its author
        )
        kept = _keep_whole_numbers(whole_numbers, found, units, trials, policy, way.base)
        if kept.islands:
            found.after = trials.run([unit for unit in units if unit not in found.islands])
        low = [unit for unit in units if unit not in found.islands]
        work = _work(program, trials, policy, way.base, low, ())
        scaling = None
        if way.precision == "fp16":
            held = [anatomy.units[name] for name in low]
            scaling = scaling_for(held, found.after.scale, question.steps)
    return Candidate(
        way,
        found.after,
        found.before,
        found.established and not kept.left,
        work,
        _memory(program, work, low=True, pure=way.base == "pure"),
        seconds(work, question.device),
        found.islands,
        [],
        found,
        scaling,
        kept.islands,
        kept.left,
    )


def _keep_whole_numbers(
    whole_numbers: WholeNumbers,
    found: IslandSearch,
    units: Sequence[str],
    trials: Trials,
    policy: Policy,
    base: str,
) -> KeptWhole:
    """Adds to the islands of `found` those that whole numbers need."""

    def region_for(islands: Sequence[str], attempt: Attempt) -> Region:
        assert attempt.module is not None
        low = [unit for unit in units if unit not in islands]
        eight_bit = base == "fp8"
        assignment = Assignment(
            attempt.module,
            () if eight_bit else low,
            policy.low,
            base,
            trials.borders,
            trials.device,
            low if eight_bit else (),
        )
        policy.is_eight_bit = lambda: assignment.is_eight_bit
        return assignment.region

    kept = whole_numbers.keep(units, found.islands, region_for, policy.low, found.after.scale)
    found.islands = [unit for unit in units if unit in found.islands or unit in kept.islands]
    return kept


def _eight_bit(
    way: Way,
    program: Program,
    trials: Trials,
    policy: Policy,
    anatomy: Anatomy,
    question: Question,
    whole_numbers: WholeNumbers,
    deadline: float,
) -> Candidate:
    """First the units that BF16 cannot do, then the linear layers that FP8 cannot do."""
    units = list(anatomy.units)
    linear = [name for name, each in anatomy.units.items() if each.kind == "Linear"]
    sixteen = find_islands(
        units, lambda low: trials.run((), low), least=question.least, deadline=deadline
    )
    kept = _keep_whole_numbers(whole_numbers, sixteen, units, trials, policy, way.base)
    rest = [unit for unit in units if unit not in sixteen.islands]
    may = [unit for unit in linear if unit in rest]

    def run(low: Sequence[str]) -> Effect:
        return trials.run(low, rest if len(low) > 1 else ())

    if may:
        found = find_islands(may, run, least=question.least, deadline=deadline)
    else:
        found = sixteen
    left_out = [unit for unit in linear if unit in found.islands or unit not in rest]
    low = [unit for unit in may if unit not in found.islands]
    work = _work(program, trials, policy, way.base, low, rest)
    return Candidate(
        way,
        found.after,
        found.before,
        found.established and sixteen.established and bool(low) and not kept.left,
        work,
        _memory(program, work, low=True, pure=False),
        seconds(work, question.device),
        sixteen.islands,
        left_out,
        found,
        whole=kept.islands,
        changed=kept.left,
    )


def _plainly(attempt: Attempt) -> Region:
    return contextlib.nullcontext


def _full(way: Way, program: Program, question: Question) -> Candidate:
    with full_precision(program.options.device):
        work = count_work(program, _plainly)
    exact = Effect(0.0, 0.0, 0.0, 0.0)
    memory = _memory(program, work, low=False, pure=False)
    return Candidate(way, exact, exact, True, work, memory, seconds(work, question.device), [], [])


def _tf32(way: Way, program: Program, question: Question) -> Candidate:
    trials = Trials(program, Policy("cuda-autocast", "bf16", program.options.device), "autocast")
    with tf32_products():
        effect = compare_passes(trials.full(), trials.reference)
    with full_precision(program.options.device):
        work = count_work(program, _plainly, "tf32")
    memory = _memory(program, work, low=False, pure=False)
    return Candidate(
        way,
        effect,
        effect,
        effect.error <= question.least,
        work,
        memory,
        seconds(work, question.device),
        [],
        [],
    )


def _work(
    program: Program,
    trials: Trials,
    policy: Policy,
    base: str,
    low: Sequence[str],
    bf16: Sequence[str],
) -> Work:
    """Of the plan, on a model of its own; empty where the code stops."""

    def region_for(attempt: Attempt) -> Region:
        assert attempt.module is not None
        assignment = Assignment(
            attempt.module, low, policy.low, base, trials.borders, trials.device, bf16
        )
        policy.is_eight_bit = lambda: assignment.is_eight_bit
        return assignment.region

    try:
        return count_work(program, region_for, "fp8" if base == "fp8" else "fp32")
    except Problem:
        raise
    except Exception:  # the effect of the plan says what was raised
        return Work()


def _memory(program: Program, work: Work, low: bool, pure: bool) -> Memory:
    attempt = program.attempt(None)
    module = attempt.module
    parameters = sum(each.numel() for each in module.parameters()) if module is not None else 0
    return memory_of(parameters, 2, low, pure, masters=pure, kept=work.kept)
