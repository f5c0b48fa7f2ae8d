"""analyze_tensor: what a tensor at hand would lose in each format, as the tool of that name says of
tensors in files.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ._core import dimension_losses, format_loss, grid

FORMATS = ("fp16", "bf16", "tf32", "e4m3", "e5m2")
_NAMES = {
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
}


def analyze_tensor(
    tensor: torch.Tensor, target_dtype: torch.dtype | str | None = None
) -> dict[str, Any]:
    """What `tensor` (floating point, any shape, any device) would lose in `target_dtype` (a torch
    dtype or one of FORMATS; None: in all of them).

    Returns `tensor`, `stats`, `formats`, `dims` and `reduced_in` in the shape of the tool's answer:
    shares are 0…1 of all elements, errors relative, `best_scale` a power of two. Advice and cases
    are the tool's. Raises ValueError for a tensor or a dtype that is not judged.
    """
    chosen = _chosen(target_dtype)
    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
        raise ValueError("analyze_tensor takes a tensor of floating-point numbers")
    held = tensor.detach().to("cpu")
    formats = [_in_format(held, name) for name in chosen]
    reduced_in = chosen[0] if len(chosen) == 1 else "bf16"
    return {
        "tensor": {
            "shape": list(held.shape),
            "dtype": str(held.dtype).removeprefix("torch."),
            "numel": held.numel(),
        },
        "stats": _stats(held),
        "formats": formats,
        "dims": [
            {
                "dim": dim,
                "size": size,
                "imbalance": _number(imbalance),
                "absorbed": absorbed,
                "reduce_error": {
                    "sum": _number(total),
                    "mean": _number(mean),
                    "norm": _number(norm),
                },
            }
            for dim, size, imbalance, absorbed, total, mean, norm in (
                dimension_losses(held, reduced_in) or ()
            )
        ],
        "reduced_in": reduced_in,
    }


def _chosen(target: torch.dtype | str | None) -> tuple[str, ...]:
    if target is None:
        return FORMATS
    name = _NAMES.get(target) if isinstance(target, torch.dtype) else target
    if name not in FORMATS:
        raise ValueError(f"{target} is not judged; known are {', '.join(FORMATS)}")
    return (name,)


def _in_format(held: torch.Tensor, name: str) -> dict[str, Any]:
    plain = format_loss(held, name, 0)
    if plain is None:
        raise ValueError(f"{held.dtype} tensors of this layout cannot be read")
    scale, scaled = 0, plain
    if plain[2] + plain[3] + plain[4]:
        scale = plain[-1]
        scaled = format_loss(held, name, scale) or plain
    return {
        "format": name,
        **_loss(plain),
        "best_scale": 2.0**scale,
        "scaled": _loss(scaled),
    }


def _loss(found: tuple[Any, ...]) -> dict[str, Any]:
    numel = max(1, found[0])
    names = ("underflow", "subnormal", "overflow", "saturated", "distortion_share")
    return {
        **{name: count / numel for name, count in zip(names, found[2:7], strict=True)},
        "rel_error": {
            "mean": _number(found[7]),
            "p99": _number(found[8]),
            "max": _number(found[9]),
        },
        "sqnr_db": _number(found[10]),
    }


def _stats(held: torch.Tensor) -> dict[str, Any]:
    wide = held.to(torch.float64)
    finite = wide[wide.isfinite()]
    stats: dict[str, Any] = {
        "nan": int(wide.isnan().sum()),
        "posinf": int(wide.isposinf().sum()),
        "neginf": int(wide.isneginf().sum()),
        "zeros": int((wide == 0).sum()),
        "grid": (grid(held) or ("unknown",))[0],
    }
    names = ("min", "max", "absmax", "absmin", "mean", "std", "rms", "l2", "dynamic_range")
    if not finite.numel():
        return stats | dict.fromkeys(names)
    sizes = finite.abs()
    nonzero = sizes[sizes > 0]
    absmin = nonzero.min().item() if nonzero.numel() else 0.0
    figures = (
        finite.min().item(),
        finite.max().item(),
        sizes.max().item(),
        absmin,
        finite.mean().item(),
        finite.std(correction=0).item(),
        finite.square().mean().sqrt().item(),
        finite.norm().item(),
        sizes.max().item() / absmin if absmin else 1.0,
    )
    return stats | dict(zip(names, figures, strict=True))


def _number(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
