"""`model.to(torch.bfloat16)` rounds the buffer inv_freq. `.float()` in forward cannot bring it
back; frequencies that are made anew in FP32 are right.
"""

import torch

Numbers = dict[str, float | bool]

LENGTH, WIDTH = 4096, 128


def frequencies() -> torch.Tensor:
    return 1.0 / 10000 ** (torch.arange(0, WIDTH, 2, dtype=torch.float32) / WIDTH)


class Rotary(torch.nn.Module):
    inv_freq: torch.Tensor

    def __init__(self, anew: bool) -> None:
        super().__init__()
        self.anew = anew
        self.register_buffer("inv_freq", frequencies(), persistent=False)

    def forward(self) -> torch.Tensor:
        inv_freq = frequencies() if self.anew else self.inv_freq.float()
        return torch.arange(LENGTH, dtype=torch.float32)[:, None] * inv_freq


def run(anew: bool) -> Numbers:
    angles = Rotary(anew).to(torch.bfloat16)().double()
    inv_freq = 1.0 / 10000 ** (torch.arange(0, WIDTH, 2).double() / WIDTH)
    exact = torch.arange(LENGTH).double()[:, None] * inv_freq
    error = (angles - exact).abs().max().item()
    return {
        "largest_relative_error_of_frequency": ((angles[1] - inv_freq).abs() / inv_freq)
        .max()
        .item(),
        "largest_angle_error_at_512": (angles[512] - exact[512]).abs().max().item(),
        "largest_angle_error": error,
        "largest_cos_error": (angles.cos() - exact.cos()).abs().max().item(),
        "failed": error > 0.1,
    }


def broken() -> Numbers:
    return run(anew=False)


def fixed() -> Numbers:
    return run(anew=True)
