"""A dice loss over a picture of 512 x 512 in FP16: sums of probabilities pass 65504, and inf / inf
is NaN. A crop of 128 x 128 is fine, and so is FP32.
"""

import torch

Numbers = dict[str, float | bool]


def dice(probability: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    overlap = (probability * target).sum()
    return 1 - (2 * overlap + 1) / (probability.sum() + target.sum() + 1)


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)

    def loss(side: int) -> tuple[float, float]:
        target = torch.ones(side, side)
        probability = 0.5 + 0.5 * torch.rand(side, side, generator=generator)
        summed = probability.to(dtype).sum().item()
        return dice(probability.to(dtype), target.to(dtype)).item(), summed

    crop, _ = loss(128)
    whole, summed = loss(512)
    return {
        "pixels": 512 * 512,
        "loss_of_crop": crop,
        "sum_over_picture": summed,
        "loss_of_picture": whole,
        "failed": whole != whole,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
