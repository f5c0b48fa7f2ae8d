"""The parts of a plan: loss scale, states, devices, costs, the judgement of a training."""

from __future__ import annotations

import functools
import math
from collections import Counter

import pytest
import torch
from mpnanny.precision.batches import of_step
from mpnanny.precision.costs import Work, memory_of, seconds
from mpnanny.precision.devices import find_device, known_devices, this_machine
from mpnanny.precision.formats import FORMATS
from mpnanny.precision.scaler import first_scale, flushed_share, scaling_for
from mpnanny.precision.trial import Curve, judge
from mpnanny.precision.units import Unit, _count
from mpnanny.programs.problem import Problem


def counted(values):
    counts: Counter[int] = Counter()
    _count(counts, values)
    return counts


@pytest.mark.parametrize("scale", [1.0, 2.0**8, 2.0**20])
def test_flushed_gradients_are_counted_as_fp16_rounds_them(scale):
    values = torch.randn(20_000, generator=torch.Generator().manual_seed(0)) * torch.logspace(
        -12, 0, 20_000
    )
    values = torch.cat([values, torch.tensor([0.0, math.nan, math.inf])])
    finite = values[(values != 0) & values.isfinite()]
    exact = float(((finite * scale).half() == 0).float().mean())
    # Counted by powers of two: values within a factor of two of the border may be beyond it.
    assert flushed_share(counted(values), scale) == pytest.approx(exact, abs=0.04)


def test_nothing_is_counted_of_nothing():
    assert flushed_share(counted(torch.zeros(0)), 1.0) == 0.0
    assert flushed_share(counted(torch.tensor([math.nan])), 1.0) == 0.0


def test_the_first_scale_leaves_room_and_is_a_power_of_two():
    def unit(largest):
        return Unit("a", "Linear", gradient_absmax=largest)

    assert first_scale([unit(1.0)]) == 2.0**11  # 65504 / 16 = 4094
    assert first_scale([unit(1e9)]) == 1.0
    assert first_scale([unit(1e-30)]) == 2.0**24
    assert first_scale([unit(0.0)]) == 2.0**16  # as GradScaler begins
    assert first_scale([unit(1e-6), unit(1.0)]) == 2.0**11
    assert scaling_for([unit(1.0)], 64.0, steps=1000).growth_interval == 100
    assert scaling_for([unit(1.0)], 64.0).growth_interval == 2000


def test_devices_are_found_as_people_and_drivers_write_them():
    for words, name in {
        "h100": "h100",
        "NVIDIA H100 80GB HBM3": "h100",
        "RTX 4090": "rtx4090",
        "a100-sxm4-80gb": "a100",
        "Tesla V100-SXM2-32GB": "v100",
        "T4": "t4",
        "mi300x": "mi300x",
        "Ascend 910B": "ascend910b",
    }.items():
        assert find_device(words).name == name, words
    with pytest.raises(Problem) as raised:
        find_device("geforce 256")
    assert "h100" in raised.value.advice


def test_what_a_device_has_not_is_said():
    assert find_device("v100").has("bf16") is False and find_device("v100").has("fp16") is True
    assert find_device("a100").has("fp8") is False and find_device("a100").has("bf16") is True
    assert find_device("h100").has("fp8") is True


def test_every_device_names_its_source_and_plausible_figures():
    for name in known_devices():
        device = find_device(name)
        assert device.source.startswith(("https://", "http://")) or len(device.source) > 10, name
        assert device.kind in ("cuda", "rocm", "npu", "tpu", "hpu", "mps", "cpu"), name
        known = [each for each in device.peaks.values() if each]
        assert all(1e12 <= each <= 1e17 for each in known), name
        sixteen = device.peaks.get("bf16") or device.peaks.get("fp16")
        if sixteen and device.peaks.get("fp32"):
            assert sixteen >= device.peaks["fp32"], name
        if device.memory is not None:
            assert 4e9 <= device.memory <= 1e12, name


def test_this_machine_is_read():
    device = this_machine()
    assert device.read and device.kind in ("cuda", "rocm", "mps", "cpu")
    assert device.has("fp8") is not True or device.kind != "cpu"


def test_time_is_the_slower_of_arithmetic_and_memory():
    device = find_device("h100")
    products = Work({"bf16": device.peak("bf16")}, {"bf16": 1.0})
    assert seconds(products, device) == pytest.approx(1.0)
    moved = Work({"bf16": 1.0}, {"bf16": 2 * device.bandwidth})
    assert seconds(moved, device) == pytest.approx(2.0)
    assert seconds(products, this_machine()) is None or torch.cuda.is_available()


def test_memory_of_the_usual_recipes():
    """Bytes a parameter, as Rajbhandari et al. (ZeRO, 2020) count them for Adam."""
    full = memory_of(1000, 2, low=False, pure=False, masters=False, kept=0)
    assert full.total == 16_000
    autocast = memory_of(1000, 2, low=True, pure=False, masters=False, kept=0)
    assert autocast.total == 18_000  # and the 16-bit copy
    masters = memory_of(1000, 2, low=True, pure=True, masters=True, kept=0)
    assert masters.total == 16_000
    assert memory_of(1000, 2, low=True, pure=True, masters=False, kept=0).total == 8_000


def test_formats_round_as_torch_does():
    values = torch.tensor([1.0, 1 / 3, 448.0, 500.0, 1e-9, 65504.0, 70000.0, -0.0, math.inf])
    assert FORMATS["fp16"].rounded(values).equal(values.half().float())
    assert FORMATS["bf16"].rounded(values).equal(values.bfloat16().float())
    tf32 = FORMATS["tf32"].rounded(torch.tensor([1 + 2**-10, 1 + 2**-12, 1e38]))
    assert tf32[0] == 1 + 2**-10 and tf32[1] == 1.0 and tf32[2] == pytest.approx(1e38, rel=1e-3)


def curve(*losses, raised=""):
    return Curve(list(losses), raised=raised)


FALLING = [2.0 * 0.9**at for at in range(40)]


@pytest.mark.parametrize(
    ("run", "noise", "verdict", "reason"),
    [
        (FALLING, 0.0, "type_1", "within_limit"),
        ([each * 1.009 for each in FALLING], 0.0, "type_1", "within_limit"),
        ([each * 1.03 for each in FALLING], 0.0, "not_established", "between_limits"),
        ([each * 1.03 for each in FALLING], 0.04, "type_1", "within_noise"),
        ([each * 1.2 for each in FALLING], 0.01, "type_2", "beyond_limit"),
        ([each * 1.2 for each in FALLING], 0.5, "not_established", "within_noise"),
        ([each * 0.5 for each in FALLING], 0.01, "type_2", "below_limit"),
        ([2.0] * 40, 0.01, "type_2", "stall"),
        ([*FALLING[:-1], math.nan], 0.01, "type_2", "not_finite"),
        ([*FALLING[:20], math.inf, *FALLING[21:]], 0.01, "type_2", "not_finite"),
    ],
)
def test_a_training_is_judged(run, noise, verdict, reason):
    made = judge(curve(*run), curve(*FALLING), noise)
    assert (made.verdict, made.reason) == (verdict, reason)


def test_a_ratio_of_losses_that_have_come_to_nothing_refutes_nothing():
    learnt = [3.6 * 0.8**at for at in range(40)]
    twice = judge(curve(*(2 * each for each in learnt)), curve(*learnt), 0.01)
    assert (twice.verdict, twice.reason) == ("not_established", "both_learnt")
    stays = judge(curve(*(max(each, 0.2) for each in learnt)), curve(*learnt), 0.01)
    assert stays.verdict == "type_2"


@pytest.mark.parametrize(
    "batches",
    [
        lambda step: step,
        lambda step=3: step,
        lambda *steps: steps[0],
        functools.partial(lambda kind, step: step, "train"),
    ],
)
def test_batches_take_the_step(batches):
    assert [of_step(batches)(at) for at in range(3)] == [0, 1, 2]


def test_batches_may_take_nothing():
    drawn = iter(range(3))
    assert [of_step(lambda: next(drawn))(at) for at in (7, 8, 9)] == [0, 1, 2]


def test_a_training_that_says_nothing_is_not_judged():
    assert judge(curve(*FALLING[:5]), curve(*FALLING[:5]), 0.0).verdict == "not_established"
    broken = judge(curve(*FALLING), curve(*FALLING[:-1], math.nan), 0.0)
    assert (broken.verdict, broken.reason) == ("not_established", "fp32_not_finite")
    assert judge(curve(2.0, raised="RuntimeError"), curve(*FALLING), 0.0).reason == "raised"
