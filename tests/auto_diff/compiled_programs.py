"""Functions that torch.compile makes something else of, at the line marked `# parts`, and functions
that look as risky and are right. What the compiler does wrong is planted by compile_test.py.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


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


def line_of(name: str) -> int:
    """Of the mark in a function."""
    inside = False
    with open(__file__, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith(("def ", "class ")):
                inside = line.startswith(f"def {name}(")
            if inside and line.rstrip().endswith("# parts"):
                return number
    raise AssertionError(name)
