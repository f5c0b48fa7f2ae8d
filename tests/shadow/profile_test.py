"""What each format would make of each layer's output: against torch's own casts."""

from __future__ import annotations

import collections
import math

import pytest
import torch
from finds import inputs
from mpnanny import _core
from mpnanny.shadow.format_values import FormatValues
from torch import nn

FIELDS = (
    "numel finite absmax rms fp16 bf16 e4m3 e5m2 e4m3_scale e5m2_scale fp16_overflow fp16_underflow"
)
FormatErrors = collections.namedtuple("FormatErrors", FIELDS)

LIMITS = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}


def format_errors(tensor: torch.Tensor) -> FormatErrors:
    return FormatErrors(*_core.format_errors(FormatValues().of(tensor)))


def relative(values: torch.Tensor, held: torch.Tensor) -> float:
    size = values.norm()
    return float((held - values).norm() / size) if size else 0.0


def cast(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    most = LIMITS.get(dtype, torch.finfo(dtype).max)
    return values.clamp(-most, most).to(torch.float32).to(dtype).to(torch.float64)


def best(values: torch.Tensor, dtype: torch.dtype) -> float:
    return min(
        relative(values, cast(values * 2.0**scale, dtype) * 2.0**-scale)
        for scale in range(-120, 120)
    )


def expect(tensor: torch.Tensor) -> None:
    found = format_errors(tensor)
    assert found is not None
    values = tensor.to(torch.float64).flatten()
    finite = values[values.isfinite()]
    assert (found.numel, found.finite) == (values.numel(), finite.numel())
    assert found.fp16 == pytest.approx(relative(finite, cast(finite, torch.float16)), rel=1e-9)
    assert found.bf16 == pytest.approx(relative(finite, cast(finite, torch.bfloat16)), rel=1e-9)
    assert found.e4m3 == pytest.approx(best(finite, torch.float8_e4m3fn), rel=1e-9)
    assert found.e5m2 == pytest.approx(best(finite, torch.float8_e5m2), rel=1e-9)
    half = finite.float().half()
    assert found.fp16_overflow == int(half.isinf().sum())
    assert found.fp16_underflow == int(((half == 0) & (finite != 0)).sum())
    assert found.absmax == finite.abs().max()
    assert found.rms == pytest.approx(float(finite.square().mean().sqrt()), rel=1e-12)


def numbers(*shape: int) -> torch.Tensor:
    """Of FP32, because torch rounds FP64 to 16 bits by way of it, which is another rounding."""
    return torch.randn(*shape).to(torch.float64)


@pytest.mark.parametrize("unit", [1.0, 1e-4, 3e-8, 2e4, 1e12])
@pytest.mark.parametrize("spread", [0.0, 2.0, 6.0])
def test_figures_are_those_of_torchs_casts(unit, spread):
    torch.manual_seed(0)
    values = unit * torch.randn(3000) * (spread * torch.randn(3000)).exp()
    expect(values.to(torch.float64))


def test_what_is_not_finite_and_zeros_are_left_out():
    torch.manual_seed(0)
    values = numbers(40, 50)
    values[3] = math.nan
    values[:, 4] = math.inf
    values[7, 7:] = -math.inf
    values[9] = 0
    values[11] *= 2.0**-20  # subnormal in FP16
    values[12] *= 2.0**-30
    expect(values)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[::3, 1:40:2],
        lambda x: x[:, :1].expand(60, 80),
        lambda x: x.view(5, 12, 80).permute(2, 0, 1),
        lambda x: x[2, 3],
        lambda x: x.to(torch.bfloat16),
        lambda x: x.to(torch.float32).t(),
    ],
)
def test_every_layout_and_type_is_read(view):
    torch.manual_seed(0)
    expect(view(numbers(60, 80)))


def test_nothing_is_no_error():
    found = format_errors(torch.zeros(0, 3, dtype=torch.float64))
    assert found is not None and (found.numel, found.finite) == (0, 0)
    zeros = format_errors(torch.zeros(3, dtype=torch.float64))
    assert zeros is not None and (zeros.fp16, zeros.e4m3, zeros.fp16_underflow) == (0.0, 0.0, 0)
    nothing = format_errors(torch.full((3,), math.nan, dtype=torch.float64))
    assert nothing is not None and nothing.finite == 0 and math.isnan(nothing.bf16)


def test_complex_numbers_count_as_two():
    torch.manual_seed(0)
    value = torch.complex(numbers(30), numbers(30))
    assert format_errors(value.conj()) == format_errors(torch.view_as_real(value))


def test_a_large_tensor_is_counted_whole_and_rounded_in_part():
    torch.manual_seed(0)
    values = numbers(512, 1000)
    values[300, 17] = 1e5
    found = format_errors(values)
    assert found is not None and (found.fp16_overflow, found.absmax) == (1, 1e5)
    for figure, dtype in ((found.bf16, torch.bfloat16), (found.fp16, torch.float16)):
        held = cast(values.flatten(), dtype)
        assert figure == pytest.approx(relative(values.flatten(), held), rel=0.1)
    assert format_errors(values) == found


# --- in a training ---


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 8)
        self.seen: dict[str, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = self.norm(x) * 1.0
        up = self.up(normal) * 3000.0
        down = self.down(up)
        for name, each in (("norm", normal), ("up", up), ("down", down)):
            self.seen[name] = each.detach()
            each.register_hook(lambda gradient, name=name: self.keep(name, gradient))
        return down

    def keep(self, name: str, gradient: torch.Tensor) -> None:
        self.seen[f"gradient of {name}"] = gradient.detach()


def test_the_profile_tells_what_formats_would_make_of_outputs_and_gradients(train, database):
    model = Block()
    train(model, lambda _step: model(inputs()).square().mean() * 1e-6, steps=1)
    rows = {
        (row["name"], row["phase"]): row
        for row in database().rows(
            "SELECT layer.name, shadow_profile.* FROM shadow_profile JOIN layer USING (layer_id)"
        )
    }

    def expect_row(name: str, phase: int, values: torch.Tensor) -> None:
        expected = format_errors(values)
        assert isinstance(expected, FormatErrors)
        row = rows[name, phase]
        columns = ("fp16", "bf16", "e4m3", "e5m2", "fp16_overflow", "fp16_underflow")
        shares = (expected.fp16_overflow / values.numel(), expected.fp16_underflow / values.numel())
        figures = (expected.fp16, expected.bf16, expected.e4m3, expected.e5m2, *shares)
        for column, figure in zip(columns, figures, strict=True):
            assert row[column] == pytest.approx(figure, rel=0.05, abs=1e-9), (name, column)
        assert row["rms"] == pytest.approx(expected.rms, rel=1e-3)
        assert row["dtype"] == 1

    expect_row("norm", 0, model.seen["norm"])  # and not its statistics
    expect_row("up", 0, model.seen["up"] / 3000)
    expect_row("down", 0, model.seen["down"])
    assert rows["down", 0]["fp16"] < 1e-3 and rows["down", 0]["fp16_overflow"] == 0
    # What goes on to the layers before, and not the gradients of weights.
    expect_row("down", 1, model.seen["gradient of up"])
    expect_row("up", 1, model.seen["gradient of norm"])
    assert rows["norm", 1]["fp16"] is None  # nothing before it has a gradient
    assert rows["down", 0]["error"] < 1e-5
