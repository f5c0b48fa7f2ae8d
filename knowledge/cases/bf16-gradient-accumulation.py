"""512 micro-batches whose gradients are added in BF16, as .grad of a BF16 weight is, and in an
FP32 buffer.
"""

import torch

Numbers = dict[str, float | bool]

MICRO_BATCHES = 512


def micro_gradient(batch: int, weight: torch.nn.Parameter) -> torch.Tensor:
    generator = torch.Generator().manual_seed(batch)
    x = (1 + 0.1 * torch.randn(16, 64, generator=generator)).to(weight.dtype)
    loss = (x @ weight).float().mean() / MICRO_BATCHES
    return torch.autograd.grad(loss, weight)[0]


def accumulate(in_fp32: bool) -> tuple[torch.Tensor, list[float]]:
    """The sum, and how large it was after each micro-batch."""
    weight = torch.nn.Parameter(torch.zeros(64, dtype=torch.bfloat16))
    total = torch.zeros(64, dtype=torch.float32 if in_fp32 else torch.bfloat16)
    sizes = []
    for batch in range(MICRO_BATCHES):
        total += micro_gradient(batch, weight)
        sizes.append(total.float().mean().item())
    return total.double(), sizes


def run(in_fp32: bool) -> Numbers:
    exact_weight = torch.nn.Parameter(torch.zeros(64))
    exact = sum(micro_gradient(batch, exact_weight).double() for batch in range(MICRO_BATCHES))
    total, sizes = accumulate(in_fp32)
    error = ((total - exact).norm() / torch.as_tensor(exact).norm()).item()
    return {
        "micro_batches": MICRO_BATCHES,
        "exact": torch.as_tensor(exact).mean().item(),
        "accumulated": sizes[-1],
        "after_256": sizes[255],
        "relative_error": error,
        "failed": error > 0.01,
    }


def broken() -> Numbers:
    return run(in_fp32=False)


def fixed() -> Numbers:
    return run(in_fp32=True)
