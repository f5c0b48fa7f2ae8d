"""Functions that torch.compile makes something else of, at the line marked `# parts`, and functions
that look as risky and are right. What the compiler does wrong is planted by compile_test.py.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import is_fake
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Healthy(nn.Module):
    """Batch statistics, dropout and a residual branch: states, draws and fusions."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(16, 32), nn.Linear(32, 4)
        self.norm = nn.BatchNorm1d(32)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.dropout(functional.gelu(self.norm(self.enter(x))), 0.2, self.training)
        return self.leave(x)


def rounding_left_out(x: Tensor) -> Tensor:
    low = x.to(torch.bfloat16).float()
    rest = functional.silu(x) * (x - low)  # parts
    return rest.sum(-1)


def gated(x: Tensor) -> Tensor:
    inner = torch.tanh(x)
    y = functional.gelu(inner) * x  # parts
    return y.sum(-1)


def in_half(x: Tensor) -> Tensor:
    """Fused it is rounded once where it is written thrice: no more than FP16 must have."""
    h = x.half()
    return (h * 3 + h.sin()) * h.cos()


def otherwise_when_compiled(x: Tensor) -> Tensor:
    y = x.exp()
    if torch.compiler.is_compiling():
        y = y * 1.01  # parts
    return y.sum(-1)


def own_kernel(x: Tensor) -> Tensor:
    y = x * 2
    z = torch.erfinv(y.tanh() * 0.5)  # parts
    return z + 1


def stops_when_compiled(x: Tensor) -> Tensor:
    y = x.cos()
    return torch.erfinv(y)  # parts


def left_twice(x: Tensor) -> Tensor:
    y = x.exp()
    print(end="")  # parts
    return y.log()


@torch.library.custom_op("mpnanny_tests::keep", mutates_args=())
def keep(store: Tensor, rows: Tensor) -> Tensor:
    """Writes what it does not say that it writes."""
    store.copy_(rows)
    return rows.sum()


@keep.register_fake
def _(store: Tensor, rows: Tensor) -> Tensor:
    return rows.new_empty(())


def writes_unsaid(x: Tensor) -> Tensor:
    store = torch.zeros_like(x)
    torch.ops.mpnanny_tests.keep(store, x.tanh())  # parts
    return (store * x).sum(-1)


def long_angles(x: Tensor) -> Tensor:
    """Angles of up to 4000 in BF16: those of eager are off by 8."""
    angle = x.abs().to(torch.bfloat16) * 1300 * 0.77  # parts
    return torch.cos(angle)


@torch.library.custom_op("mpnanny_tests::squash", mutates_args=())
def squash(x: Tensor) -> Tensor:
    return torch.tanh(x)


@squash.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _kept(ctx, inputs, output) -> None:
    ctx.save_for_backward(output)


def _derivative(ctx, gradient: Tensor) -> Tensor:
    """Another one where it is traced."""
    (y,) = ctx.saved_tensors
    return gradient * (1 - y * y) * (1.01 if is_fake(y) else 1.0)


squash.register_autograd(_derivative, setup_context=_kept)


def derived_otherwise(x: Tensor) -> Tensor:
    y = torch.sin(x) * 1.5
    print(end="")  # a second graph begins
    z = torch.ops.mpnanny_tests.squash(y)  # parts
    return (z.exp() + x).sum(-1)


def bent(x: Tensor) -> Tensor:
    y = x * 1.1
    z = y.sin()  # parts
    return (z * x).sum(-1)


class LeavesAutocast(nn.Module):
    """A product that stays in FP32, also as it is derived: its gradients are beyond FP16."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.weight = nn.Linear(32, 32), nn.Parameter(torch.randn(32, 8))

    def inner(self, x: Tensor) -> Tensor:
        h = functional.gelu(self.enter(x))
        with torch.autocast("cpu", enabled=False):
            y = h.float() @ self.weight  # parts
            return (1000 * y).square().mean(-1)

    @torch.compiler.disable(recursive=False)
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            return self.inner(x)


class Shifted(nn.Module):
    """Rows that move on by one place in the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.linspace(1, 2, 8 * 32).reshape(8, 32))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.gelu(x * self.rows.mean())
        self.rows[1:] = self.rows[:-1].clone()  # parts
        return y.sum(-1)


class Regions(nn.Module):
    """All that a cut may not go through: regions, results of several tensors, writes into views,
    derivatives that are given.
    """

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.register_buffer("rows", torch.zeros(4, 8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            size = x.abs().amax() * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.enter(x)
            with torch.autocast("cpu", enabled=False):
                h = h.float() @ self.enter.weight
            h = self.enter(h)
        h = functional.dropout(self.norm(h.float()), 0.2, self.training)
        top, at = h.max(-1)
        first, rest = h.chunk(2, -1)
        canvas = h * 1.5
        tiles = canvas.view(-1, 2, 4)
        tiles[:, 0].mul_(0.5)
        tiles.transpose(1, 2)[0] += first[0].unsqueeze(-1)
        self.rows[1:] = self.rows[:-1] + canvas[1:].detach()
        slope = torch.func.grad(lambda each: each.sin().square().sum())(h)
        summed = torch.vmap(lambda each: each.cumsum(0))(h)
        again = checkpoint(lambda each: each.sin().exp(), canvas, use_reentrant=False)
        result = (again + slope + summed) / size
        return result.sum(-1) + top + rest.sum(-1) * at, self.rows.sum() * x.shape[0]


def line_of(name: str) -> int:
    """Of the mark in a function."""
    inside = False
    with open(__file__, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith(("def ", "class ")):
                inside = line.startswith((f"def {name}(", f"class {name}("))
            if inside and line.rstrip().endswith("# parts"):
                return number
    raise AssertionError(name)
