"""How far the CPU's own FP16 and BF16 kernels are from the emulation of auto_diff (the operator in
FP32, rounded once) and from the exact result (the operator in FP64, rounded once).

    OMP_NUM_THREADS=1 python emulation.py [--seeds 3] [--each]

Distances are in units in the last place of the format. `own`: at each element's own magnitude.
`scale`: at the magnitude of the largest element of the result, where cancellation does not count.
Prints one row a class of operators; --each prints one row an operator.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Operator = Callable[..., Tensor]

DIGITS = {torch.float16: (10, -14), torch.bfloat16: (7, -126)}  # of the fraction, least exponent
SHAPES = [(7,), (8, 33), (16, 257), (64, 1024)]  # of one operand


def unary(name: str) -> Operator:
    return getattr(torch, name)


POINTWISE: dict[str, Operator] = {
    **{n: unary(n) for n in ["neg", "abs", "relu", "floor", "sign", "square", "reciprocal"]},
    "add": lambda x: x + x.flip(-1),
    "sub": lambda x: x - x.flip(-1),
    "mul": lambda x: x * x.flip(-1),
    "div": lambda x: x / x.flip(-1),
    "maximum": lambda x: torch.maximum(x, x.flip(-1)),
    "where": lambda x: torch.where(x > 0, x, x.flip(-1)),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "sqrt": lambda x: x.abs().sqrt(),
    "lerp": lambda x: torch.lerp(x, x.flip(-1), 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x.flip(-1)),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.flip(-1)),
}
TRANSCENDENTAL: dict[str, Operator] = {
    **{n: unary(n) for n in ["exp", "expm1", "sin", "cos", "tanh", "sigmoid", "erf", "atan"]},
    "log": torch.log,
    "log1p": lambda x: x.abs().log1p(),
    "rsqrt": torch.rsqrt,
    "pow": lambda x: x.pow(1.7),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "softplus": F.softplus,
    "elu": F.elu,
    "mish": F.mish,
    "logsigmoid": F.logsigmoid,
    "hardswish": F.hardswish,
}
REDUCTIONS: dict[str, Operator] = {
    "sum": lambda x: x.sum(-1),
    "sum_positive": lambda x: x.abs().sum(-1),
    "mean": lambda x: x.mean(-1),
    "var": lambda x: x.var(-1),
    "std": lambda x: x.std(-1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "norm1": lambda x: torch.linalg.vector_norm(x, ord=1, dim=-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "amax": lambda x: x.amax(-1),
    "prod": lambda x: x.prod(-1),
}
SCANS: dict[str, Operator] = {
    "cumsum": lambda x: x.abs().cumsum(-1),
    "cumprod": lambda x: x.cumprod(-1),
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
}
NORMALIZATIONS: dict[str, Operator] = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-5),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "group_norm": lambda x: F.group_norm(_image(x), 2),
    "batch_norm": lambda x: F.batch_norm(_image(x), None, None, training=True),
}
PRODUCTS: dict[str, Operator] = {
    "linear": lambda x: F.linear(_matrix(x), _weight(x)),
    "matmul": lambda x: _matrix(x) @ _matrix(x).mT,
    "bmm": lambda x: torch.bmm(_matrix(x)[None], _weight(x).mT[None]),
    "dot": lambda x: torch.dot(x.flatten(), x.flatten().flip(-1)),
    "addmm": lambda x: torch.addmm(_matrix(x)[:, :1], _matrix(x), _weight(x).mT),
    "einsum": lambda x: torch.einsum("ik,jk->ij", _matrix(x), _weight(x)),
    "conv1d": lambda x: F.conv1d(_matrix(x)[:, None], _taps(x, 1)[:, None]),
    "conv2d": lambda x: F.conv2d(_image(x), _taps(x, 36).view(4, 4, 3, 3), padding=1),
    "attention": lambda x: F.scaled_dot_product_attention(*([_matrix(x)[None, None]] * 3)),
}
POOLS_AND_LOSSES: dict[str, Operator] = {
    "avg_pool2d": lambda x: F.avg_pool2d(_image(x), 2),
    "max_pool2d": lambda x: F.max_pool2d(_image(x), 2),
    "interpolate": lambda x: F.interpolate(_image(x), scale_factor=1.7, mode="bilinear"),
    "mse_loss": lambda x: F.mse_loss(x, x.flip(-1)),
    "l1_loss": lambda x: F.l1_loss(x, x.flip(-1)),
    "smooth_l1": lambda x: F.smooth_l1_loss(x, x.flip(-1)),
    "bce_logits": lambda x: F.binary_cross_entropy_with_logits(x, (x > 0).to(x.dtype)),
    "cross_entropy": lambda x: F.cross_entropy(_matrix(x), _matrix(x).shape[1] // 2 + _zeros(x)),
    "kl_div": lambda x: F.kl_div(x, x.flip(-1), reduction="sum"),
}
# What the operand is made from normal numbers by, in the format itself, before the comparison: so
# that one operator is compared and not a chain of them.
OPERANDS: dict[str, Operator] = {
    **dict.fromkeys(["div", "addcdiv"], lambda x: x.abs() + 1),
    **dict.fromkeys(["log", "rsqrt", "pow"], lambda x: x.abs().clamp_min(0.01)),
    "prod": lambda x: 1 + x / 32,
    "cumprod": lambda x: 1 + x.abs() / 512,
    "kl_div": lambda x: x.softmax(-1),
}
CLASSES = {
    "pointwise": POINTWISE,
    "transcendental": TRANSCENDENTAL,
    "sum, norm": {k: v for k, v in REDUCTIONS.items() if k != "prod"},
    "product of a row": {"prod": REDUCTIONS["prod"], "cumprod": SCANS["cumprod"]},
    "scan": {k: v for k, v in SCANS.items() if k != "cumprod"},
    "normalization": NORMALIZATIONS,
    "matrix product": PRODUCTS,
    "pooling, loss": POOLS_AND_LOSSES,
}


def _matrix(x: Tensor) -> Tensor:
    return x if x.ndim == 2 else x[None]


def _weight(x: Tensor) -> Tensor:
    """[24, last]: the operand's own values in another order; exact in every format."""
    flat = x.flatten().flip(0)
    return flat.repeat(math.ceil(24 * x.shape[-1] / flat.numel()))[: 24 * x.shape[-1]].view(24, -1)


def _taps(x: Tensor, rows: int) -> Tensor:
    return x.flatten().flip(0).repeat(math.ceil(rows * 4 / x.numel()))[: rows * 4].view(rows, 4)


def _image(x: Tensor) -> Tensor:
    """[2, 4, 8, 8] out of the operand's values."""
    flat = x.flatten()
    return flat.repeat(math.ceil(512 / flat.numel()))[:512].view(2, 4, 8, 8)


def _zeros(x: Tensor) -> Tensor:
    return torch.zeros(_matrix(x).shape[0], dtype=torch.long)


def ulps(got: Tensor, wanted: Tensor, dtype: torch.dtype) -> tuple[float, float]:
    """Largest distance at the elements' own magnitude, and at that of the largest element.
    Elements that are not finite on both sides count when they differ."""
    fraction, least = DIGITS[dtype]
    got, wanted = got.double().flatten(), wanted.double().flatten()
    both = got.isfinite() & wanted.isfinite()
    same = (got == wanted) | (got.isnan() & wanted.isnan())
    if bool((~both & ~same).any()):
        return math.inf, math.inf
    got, wanted = got[both], wanted[both]
    if not got.numel():
        return 0.0, 0.0
    _, exponent = torch.frexp(torch.maximum(wanted.abs(), torch.tensor(2.0**least)))
    unit = torch.exp2((exponent - 1 - fraction).double())
    distance = (got - wanted).abs()
    return float((distance / unit).max()), float(distance.max() / unit.max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--each", action="store_true", help="one row an operator")
    options = parser.parse_args()
    worst: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * 6)
    missing, count = set(), 0
    for dtype in DIGITS:
        short = str(dtype).removeprefix("torch.")
        for group, operators in CLASSES.items():
            for name, operator in operators.items():
                for shape in SHAPES:
                    for seed in range(options.seeds):
                        torch.manual_seed(seed)
                        x = OPERANDS.get(name, torch.clone)(torch.randn(shape).to(dtype))
                        try:
                            half = operator(x)
                        except (RuntimeError, NotImplementedError) as error:
                            if "not implemented for" not in str(error):
                                raise
                            missing.add(f"{name} {short}")
                            continue
                        once = operator(x.float()).to(dtype)
                        exact = operator(x.double()).to(dtype)
                        count += 1
                        row = [
                            *ulps(half, once, dtype),
                            *ulps(half, exact, dtype),
                            *ulps(once, exact, dtype),
                        ]
                        key = (short, f"{group}: {name}" if options.each else group)
                        worst[key] = [max(pair) for pair in zip(worst[key], row, strict=True)]
    print("format | operators | half–FP32: own | scale | half–FP64 | scale | FP32–FP64 | scale")
    for (short, group), row in worst.items():
        print(" | ".join([short, group, *(f"{value:.4g}" for value in row)]))
    print(f"{sum(map(len, CLASSES.values()))} operators, {count} comparisons")
    print("no kernel in half:", ", ".join(sorted(missing)) or "none")


if __name__ == "__main__":
    main()
