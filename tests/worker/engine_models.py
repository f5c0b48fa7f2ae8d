"""Small models that both engines compare: the one in Python as `engine_models.py:NAME`, the worker
as exported files. Each has one thing that an engine must see or leave alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ClampToFp8(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = (x * 2000.0).clamp(-448.0, 448.0)
        return y * 0.5


class FakeQuantized(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fake_quantize_per_tensor_affine(x.float() * 40.0, 0.1, 0, -128, 127)


class FewWrongIds(nn.Module):
    """Four of 264 whole numbers are not those that they should be."""

    def forward(self, x: Tensor) -> Tensor:
        ids = torch.arange(264, device=x.device)
        return ids[None, :] + x[:, :1] * 0.0


class RotatedPositions(nn.Module):
    """Positions that BF16 does not hold, and whose sines no output tells of."""

    def forward(self, x: Tensor) -> Tensor:
        at = torch.arange(512, device=x.device) + x[0, 0] * 0.0
        rates = torch.exp(torch.arange(0, 128, device=x.device) * -0.07).to(x.dtype)
        turned = (at[:, None] * rates).sin()
        return x + turned.mean(0) * 1e-3


class RoundedMask(nn.Module):
    """A mask is filled with a large whole number that BF16 rounds."""

    def forward(self, x: Tensor) -> Tensor:
        kept = (torch.arange(128, device=x.device) % 3 != 0).to(x.dtype)
        return (x + (1.0 - kept) * -10000.0).softmax(-1)


class WrongBuffer(nn.Module):
    """What is wrong goes into a buffer and nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("variance", torch.ones(128))

    def forward(self, x: Tensor) -> Tensor:
        far = x + 100.0
        spread = (far * far).mean(0) - far.mean(0) * far.mean(0)
        self.variance.copy_(spread)
        return x * 2.0


class BufferByAssignment(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("variance", torch.ones(128))

    def forward(self, x: Tensor) -> Tensor:
        far = x + 100.0
        spread = (far * far).mean(0) - far.mean(0) * far.mean(0)
        self.variance = spread
        return x * 2.0


class SmallBuffer(nn.Module):
    """A buffer that is wrong, and tiny beside the one that it belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(128))
        self.register_buffer("largest", torch.full((128,), 1e6))

    def forward(self, x: Tensor) -> Tensor:
        near = (x + 8.0) - 8.0
        self.mean.copy_(near.mean(0) * 1e-2)
        self.largest.mul_(1.0)
        return x * 2.0


class FlippedMask(nn.Module):
    """Some elements of a mask are others; what it chooses between is nearly the same."""

    def forward(self, x: Tensor) -> Tensor:
        wrong = (x + 60.0) - 60.0
        return torch.where(wrong > 0.02, x, x * 1.001)


class WrongIndex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(64.0) + 1.0)

    def forward(self, x: Tensor) -> Tensor:
        wrong = ((x + 300.0) - 300.0) * 8.0
        at = (wrong + 32.0).clamp(0.0, 63.0).long()
        return x + self.table[at] * 1e-6


class WrongBins(nn.Module):
    """Places among boundaries, which the low precision cannot tell apart."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("edges", torch.linspace(-4.0, 4.0, 2048))
        self.register_buffer("table", torch.linspace(0.0, 1.0, 2049))

    def forward(self, x: Tensor) -> Tensor:
        return self.table[torch.bucketize(x, self.edges)]


class WrongPlaces(nn.Module):
    """The same of values that are wrong already."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("edges", torch.linspace(-4.0, 4.0, 64))

    def forward(self, x: Tensor) -> Tensor:
        wrong = (x + 300.0) - 300.0
        return torch.searchsorted(self.edges, wrong)


class TopOfTies(nn.Module):
    """Choices that fall the other way near a tie."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.topk(x * 1e-3 + 1.0, 4).indices


class CopiedToIntegers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        ids = torch.zeros(x.shape, dtype=torch.int64, device=x.device)
        ids.copy_(x * 1000.0)
        return ids


class FiniteHereOnly(nn.Module):
    """FP64 divides by 0, the low precision does not."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 0.0 + 257.0
        z = 1.0 / (y - 257.0)
        return torch.sigmoid(z) + x


class HiddenByFp32(nn.Module):
    """FP32 makes a small error at the same line, which gets nowhere."""

    def forward(self, x: Tensor) -> Tensor:
        d = (x + 3e6) - 3e6
        return x + d * 0.1


class WorseTheSecondTime(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x
        for far in [20.0, 200.0]:
            y = (x + far) - far
        return y


class RunningSum(nn.Module):
    """A sum in place, whose rounding FP32 cures if it stays in FP32 from line to line."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x[0])
        for _ in range(16):
            for i in range(64):
                total += x[i].abs()
        return total


class NarrowByItself(nn.Module):
    """The model asks for 16 bits itself, so FP32 has the error as well."""

    def forward(self, x: Tensor) -> Tensor:
        y = (x.to(torch.bfloat16) + 300.0).float() - 300.0
        return y


class Flushed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        small = torch.exp(x * 2.0 - 16.0)
        return small * small


class VarianceOfLarge(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        far = x + 100.0
        spread = (far * far).mean(0) - far.mean(0) * far.mean(0)
        return x / torch.sqrt(spread.abs() + 1e-5)


class LogarithmOfZero(nn.Module):
    """1 - p is 0 in the low precision only."""

    def forward(self, x: Tensor) -> Tensor:
        p = torch.sigmoid(x + 9.0)
        return torch.log(1.0 - p)
