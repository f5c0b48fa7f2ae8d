"""What is undefined in FP64, too, and whether rounding before the step made it so."""

from __future__ import annotations

import json
import math

import pytest
import torch
from finds import inputs
from torch import nn


def first_of(train, scale):
    model = nn.Linear(8, 8)
    first = train(model, lambda step: (model(inputs()) * scale()).mean(), steps=4).first()
    assert (first["kind"], first["severity"]) == ("undefined", "ERROR")
    return first["precision"], json.loads(first["detail"] or "{}").get("rounded_before", False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_one_that_was_rounded_up_before_is_not_excluded(train, dtype):
    kept = torch.tensor([0.9999, 0.5]).to(dtype)  # 1 and 0.5
    assert first_of(train, lambda: torch.log(1 - kept).float().sum()) == ("not_tested", True)


def test_the_same_in_fp32_is_excluded(train):
    kept = torch.tensor([1.0, 0.5])
    assert first_of(train, lambda: torch.log(1 - kept).sum()) == ("excluded", False)


def test_a_zero_is_zero_in_any_format(train):
    none = torch.zeros(4, dtype=torch.float16)
    assert first_of(train, lambda: torch.log(none).float().sum()) == ("excluded", False)


def test_equal_values_are_equal_in_any_format(train):
    """A deviation of values that are all the same is 0."""
    same = torch.full((4,), 0.3, dtype=torch.bfloat16)

    def scale() -> torch.Tensor:
        away = same - same.mean()
        return (away / away.square().mean().sqrt()).float().sum()

    assert first_of(train, scale) == ("excluded", False)


def test_a_negative_root_stays_one(train):
    below = torch.tensor([-2.0, 1.0], dtype=torch.bfloat16)
    assert first_of(train, lambda: below.sqrt().float().sum()) == ("excluded", False)


# --- what was computed before the step, and what only looks so ---


def test_two_data_sets_that_were_rounded_to_the_same_values_exclude_nothing(train):
    exact = torch.rand(64) + 1
    one, other = exact.bfloat16(), (exact * (1 + 1e-4)).bfloat16()
    assert first_of(train, lambda: (one - other).float().log().sum())[0] == "not_tested"


def test_fp32_values_on_the_grid_of_a_narrow_format_were_rounded(train):
    share = torch.linspace(0.9, 1.0, 64) - 1e-5
    rounded = share.bfloat16().float()
    assert first_of(train, lambda: (1 - rounded).log().sum()) == ("not_tested", True)


def test_labels_and_flags_in_fp32_were_not(train):
    flags = (torch.arange(64) % 2).float()
    assert first_of(train, lambda: (1 - flags).log().sum()) == ("excluded", False)


def test_a_value_that_numpy_has_computed_excludes_nothing(train):
    share = torch.linspace(0.5, 1.0, 64)

    def scale() -> torch.Tensor:
        return torch.log(1 - torch.from_numpy(share.numpy() * 1.0)).sum()

    assert first_of(train, scale) == ("not_tested", True)


def test_an_intermediate_of_an_earlier_step_excludes_nothing(train):
    """It is 1 in FP32, and 1 - 1e-9 where FP64 computes it from the beginning."""
    model = nn.Linear(8, 8)
    kept: list[torch.Tensor] = []

    def loss_of(step: int) -> torch.Tensor:
        share = (model(inputs()) * 0.01 + 20).sigmoid()
        loss = (1 - kept[-1]).log().mean() * share.mean() if step == 2 else share.mean()
        kept.append(share.detach())
        return loss

    first = train(model, loss_of, steps=3).first()
    assert (first["kind"], first["precision"]) == ("undefined", "not_tested")


def test_a_bound_that_rounds_to_one_is_precision(train):
    """clamp(max=1 - 1e-6) in BF16 clamps nothing."""
    model = nn.Linear(8, 8)

    def loss_of(step: int) -> torch.Tensor:
        share = (model(inputs()).bfloat16() + (12.0 if step == 2 else 0.0)).sigmoid()
        share = share.clamp(max=1 - 1e-6)
        return -(1 - share).log().float().mean()

    for shadow in ("every=1", "steps=0-1"):
        first = train(model, loss_of, steps=3, shadow=shadow).first()
        assert (first["kind"], first["precision"]) == ("range", "proven")


def test_a_detached_value_of_the_loss_that_was_rounded_excludes_nothing(train):
    """Autograd has kept the weight, and nobody knows what it was computed of."""
    model = nn.Linear(8, 8)

    def loss_of(step: int) -> torch.Tensor:
        score = model(inputs())
        share = (score.detach().bfloat16() + torch.linspace(0, 12, 8).bfloat16()).sigmoid()
        return -(score * (1 - share).float()).log().mean() if step == 2 else score.mean()

    first = train(model, loss_of, steps=3, shadow="steps=0-1").first()
    assert (first["kind"], first["precision"]) == ("undefined", "not_tested")


def test_a_model_that_saturates_excludes_nothing_by_its_output_alone(train):
    """Its output is 1 in FP32; in FP64, from the batch on, it is less."""

    class Saturates(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.enter(x) * 0.01 + (20.0 if self.saturates else 0.0)).sigmoid()

    model = Saturates()

    def loss_of(step: int) -> torch.Tensor:
        model.saturates = step == 2
        return -(1 - model(inputs())).log().mean()

    for shadow in ("every=1", "steps=0-1"):
        first = train(model, loss_of, steps=3, shadow=shadow).first()
        assert first["precision"] != "excluded"


def test_what_fails_in_fp64_from_the_batch_on_is_excluded_without_a_shadow_too(train):
    model = nn.Linear(8, 8)

    def loss_of(step: int) -> torch.Tensor:
        given = inputs() * (0.0 if step == 2 else 1.0)
        return (model(given) - model.bias).abs().log().mean() * 1e-3

    first = train(model, loss_of, steps=3, shadow="steps=0-1").first()
    assert (first["kind"], first["precision"]) == ("undefined", "excluded")


# --- what plain steps have kept, and what went through Python, in a program that uses 16 bits ---


def precision_of(train, make, dtype=torch.bfloat16, shadow="steps=0-5", steps=6):
    """`make(step, out)`: a number that is not finite in the last step, of a model in `dtype`."""
    model = nn.Linear(8, 8)

    def loss_of(step: int) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
            out = model(inputs())
        return out.float().square().mean() * (1 + make(step, out.detach()))

    found = train(model, loss_of, steps=steps, shadow=shadow)
    first = next(each for each in found.all if each["kind"] in ("undefined", "range"))
    return first["precision"]


BOTH = pytest.mark.parametrize("shadow", ["steps=0-5", "every=5"])


@BOTH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_fp32_statistics_that_plain_steps_have_kept(train, dtype, shadow):
    """The variance that they say is negative: by their rounding, or, in FP32, by the 0.01."""
    kept: list[torch.Tensor] = []

    def make(step: int, out: torch.Tensor) -> torch.Tensor:
        if step == 5:
            mean, square = kept[-1]
            return (square - mean * mean).sqrt().sum()
        seen = (out * 0.01 + 30).to(dtype).float()
        kept.append(torch.stack([seen.mean(), seen.square().mean() - 0.01]) * (1 + 1e-6 * step))
        return torch.zeros(())

    said = precision_of(train, make, dtype, shadow)
    assert said == "excluded" if dtype is torch.float32 else said != "excluded"


@BOTH
def test_a_number_that_was_read_from_16_bits(train, shadow):
    kept = [0.5]

    def make(step: int, out: torch.Tensor) -> torch.Tensor:
        if step == 5:
            return (out.float().mean() * 0 + 1 - kept[-1]).log()
        kept.append((out.mean() * 0 + 0.9999).bfloat16().item())
        return torch.zeros(())

    assert precision_of(train, make, shadow=shadow) != "excluded"


@BOTH
def test_a_number_that_python_has_computed_of_16_bits(train, shadow):
    kept = [0.0]

    def make(step: int, out: torch.Tensor) -> torch.Tensor:
        if step == 5:
            return (out.float().mean() * 0 + kept[-1]).sqrt()
        seen = (out * 0.01 + 30).bfloat16()
        kept.append(seen.square().mean().item() - seen.mean().item() ** 2 - 1 - step / 7)
        return torch.zeros(())

    assert precision_of(train, make, shadow=shadow) != "excluded"


def test_a_list_of_numbers_that_were_read_from_16_bits(train):
    values = [each.item() for each in torch.tensor([0.9999, 0.26, 0.31, 0.7]).bfloat16()]

    def make(step: int, out: torch.Tensor) -> torch.Tensor:
        return (1 - torch.tensor(values)).log().sum() if step == 5 else torch.zeros(())

    assert precision_of(train, make) != "excluded"


def test_data_in_which_fp16_has_made_zeros(train):
    """1e-9 is 0 in FP16, and the loader has cast it and back."""
    share = torch.rand(64) * 0.5
    share[7] = 1e-9
    share = share.half().float()
    assert first_of(train, lambda: share.log().sum()) == ("not_tested", True)


# --- the same program, and its data or its formula is to blame ---


@BOTH
def test_a_zero_in_fp32_data_of_a_model_in_16_bits(train, shadow):
    table = torch.rand(6, 64) + 0.01
    table[5, 3] = 0.0

    def make(step: int, out: torch.Tensor) -> torch.Tensor:
        return table[step].log().mean()

    assert precision_of(train, make, shadow=shadow) == "excluded"


def test_a_mean_over_nothing(train):
    def make(step: int, out: torch.Tensor) -> torch.Tensor:
        chosen = (torch.arange(16) < (0 if step == 5 else 4)).float()[:, None]
        return (torch.ones(16, 8) * chosen).sum() / chosen.sum()

    assert precision_of(train, make) == "excluded"


def test_a_constant_that_the_program_writes_down(train):
    def make(step: int, out: torch.Tensor) -> torch.Tensor:
        return (torch.tensor(0.3) - (0.7 if step == 5 else 0.1)).log()

    assert precision_of(train, make) == "excluded"


@BOTH
def test_a_buffer_that_holds_statistics_of_16_bits(train, shadow):
    """In a plain step the module has written the buffer, of which the loss reads a copy."""
    kept = nn.BatchNorm1d(8)
    model = nn.Linear(8, 8)
    model.register_buffer("mean", torch.zeros(8))
    olds: list[torch.Tensor] = []

    def loss_of(step: int) -> torch.Tensor:
        out = kept(model(inputs()))
        loss = out.square().mean() + (out * 0.1).bfloat16().float().mean()
        if step == 5:
            loss = loss + (olds[-1][:1] - 1 - 1e-4).sqrt().sum()
        model.mean.copy_((out.detach() * 0 + 0.9999).mean(0).bfloat16())
        olds.append(model.mean.clone())
        return loss

    found = train(model, loss_of, steps=6, shadow=shadow)
    first = next(each for each in found.all if each["kind"] in ("undefined", "range"))
    assert first["precision"] != "excluded"


def test_running_statistics_of_a_normalisation_decide_nothing(train):
    """It reads none of them while it trains, and they are those of 16-bit values."""
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    data = torch.ones(16, 8)

    def loss_of(step: int) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(inputs())
        scores = model(data) * 0 + data - (2 if step == 5 else 0.5)
        return out.float().square().mean() + scores.log().mean()

    found = train(model, loss_of, steps=6, shadow="every=5")
    first = next(each for each in found.all if each["kind"] in ("undefined", "range"))
    assert first["precision"] == "excluded"


def test_a_nan_that_a_plain_step_has_kept(train):
    kept = [torch.tensor(1.0)]

    def make(step: int, out: torch.Tensor) -> torch.Tensor:
        seen, kept[0] = kept[0], out.float().mean() * (math.nan if step == 4 else 0)
        return seen

    assert precision_of(train, make, shadow="every=5") == "not_tested"


def test_a_variance_in_16_bits_that_a_plain_step_has_kept(train):
    kept: list[torch.Tensor] = []

    def make(step: int, out: torch.Tensor) -> torch.Tensor:
        seen = (out * 0.01 + 30).bfloat16()
        kept.append(seen.square().mean(0) - seen.mean(0).square() - 1)
        return kept[-2].sqrt().float().sum() if step == 5 else torch.zeros(())

    assert precision_of(train, make, shadow="every=5") == "not_tested"
