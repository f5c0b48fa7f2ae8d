"""CIoU's alpha = v / (1 - iou + v + eps) of equal boxes: eps 1e-9 is 0 in FP16, so it is 0/0."""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype, eps: float) -> Numbers:
    iou = torch.tensor([1.0], dtype=torch.float16).to(dtype)
    v = torch.tensor([0.0], dtype=torch.float16).to(dtype)  # equal aspect ratios
    alpha = v / (1 - iou + v + torch.tensor(eps, dtype=dtype))
    return {
        "eps_stored": torch.tensor(eps, dtype=dtype).item(),
        "alpha": alpha.item(),
        "failed": not bool(torch.isfinite(alpha).all()),
    }


def broken() -> Numbers:
    return run(torch.float16, 1e-9)


def fixed() -> Numbers:
    return run(torch.float32, 1e-7)
