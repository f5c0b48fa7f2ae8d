#!/usr/bin/env python3
"""What the CPU's kernels in FP16 and BF16 give, beside FP64 rounded once: the bound within which a
CPU answers for another device's arithmetic.

    OMP_NUM_THREADS=1 PYTHONPATH=build/release/python python bench/half_arithmetic.py

Prints, for each operator and dtype, the largest difference in units in the last place of the
correctly rounded result, over 20 draws of each shape and range, and how far FP32 rounded once is.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

DRAWS = 20
Operator = Callable[[Tensor], Tensor]


def own_weight(x: Tensor, *shape: int) -> Tensor:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=draw).to(torch.bfloat16).to(x.dtype)  # fits in both


OPERATORS: dict[str, dict[str, Operator]] = {
    "elementwise": {
        "add": lambda x: x + x.flip(-1),
        "mul": lambda x: x * x.flip(-1),
        "div": lambda x: x / (x.flip(-1).abs() + 1),
        "exp": torch.exp,
        "log": lambda x: x.abs().log(),
        "sqrt": lambda x: x.abs().sqrt(),
        "rsqrt": lambda x: (x.abs() + 0.1).rsqrt(),
        "sin": torch.sin,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "gelu": functional.gelu,
        "pow 3": lambda x: x**3,
    },
    "reductions": {
        "sum": lambda x: x.sum(-1),
        "mean": lambda x: x.mean(-1),
        "var": lambda x: x.var(-1),
        "norm": lambda x: x.norm(dim=-1),
        "cumsum": lambda x: x.cumsum(-1),
        "logsumexp": lambda x: x.logsumexp(-1),
        "softmax": lambda x: x.softmax(-1),
        "log_softmax": lambda x: x.log_softmax(-1),
        "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
    },
    "products": {
        "mm": lambda x: x @ own_weight(x, 64, 32),
        "bmm": lambda x: x[None] @ own_weight(x, 1, 64, 32),
        "linear": lambda x: functional.linear(x, own_weight(x, 32, 64)),
        "conv1d": lambda x: functional.conv1d(x[None], own_weight(x, 4, x.shape[0], 5)),
        "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    },
}


def ulps(held: Tensor, exact: Tensor, dtype: torch.dtype) -> float:
    """Largest difference, in units in the last place of the exact result's largest element of each
    row for sums (whose terms decide), of each element else: the smaller one of both.
    """
    info = torch.finfo(dtype)
    rounded = exact.to(dtype).double()
    floor = exact.abs().amax() * info.eps  # a sum's own terms are of this size
    size = torch.maximum(rounded.abs(), floor)
    spacing = torch.exp2(torch.floor(torch.log2(size.clamp_min(info.smallest_normal)))) * info.eps
    fits = rounded.isfinite() & held.double().isfinite()
    return ((held.double() - rounded).abs() / spacing)[fits].max().item()


def main() -> None:
    draw = torch.Generator().manual_seed(0)
    print(f"{'operator':14} {'fp16 CPU':>9} {'of FP32':>8} {'bf16 CPU':>9} {'of FP32':>8}   ulps")
    for group, operators in OPERATORS.items():
        for name, run in operators.items():
            worst: list[float] = []
            for dtype in (torch.float16, torch.bfloat16):
                native = single = 0.0
                for at in range(DRAWS):
                    scale = (0.1, 1.0, 4.0)[at % 3]
                    x = (torch.randn(48, 64, generator=draw) * scale).to(dtype)
                    exact = run(x.double())
                    native = max(native, ulps(run(x), exact, dtype))
                    single = max(single, ulps(run(x.float()).to(dtype), exact, dtype))
                worst += [native, single]
            a, b, c, d = worst
            print(f"{name:14} {a:9.2f} {b:8.2f} {c:9.2f} {d:8.2f}   {group}")


if __name__ == "__main__":
    main()
