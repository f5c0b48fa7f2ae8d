"""FSDP2's cast of all floating-point inputs of a wrapped block, emulated by a forward pre-hook:
FP32 time steps lose their identity and FP32 rotary tables 16 of their 24 bits.
"""

import torch

Numbers = dict[str, float | bool]


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.frequency = 64
        self.proj = torch.nn.Linear(64, 64, bias=False, dtype=torch.bfloat16)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, time: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        half = torch.arange(self.frequency // 2) / (self.frequency // 2)
        angle = time.float()[:, None] * torch.exp(-9.21034 * half)
        return self.proj(x).float() * cos.float(), angle.sin()


def cast_inputs(
    module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor, ...]:
    return tuple(x.bfloat16() if x.is_floating_point() else x for x in inputs)


def run(cast_forward_inputs: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    block = Block().requires_grad_(False)
    block.proj.weight.copy_(torch.randn(64, 64, generator=generator) / 8)
    if cast_forward_inputs:
        block.register_forward_pre_hook(cast_inputs)
    time = torch.arange(1000, dtype=torch.float32)
    cos = torch.rand(1000, 64, generator=generator)
    x = torch.randn(1000, 64, generator=generator).bfloat16()
    rotated, embedding = block(x, cos, time)
    exact = block.proj(x).double() * cos.double()
    distinct = len(torch.unique(embedding, dim=0))
    return {
        "time_steps": len(time),
        "distinct_embeddings": distinct,
        "rope_error_percent": 100 * ((rotated - exact).norm() / exact.norm()).item(),
        "failed": distinct < len(time),
    }


def broken() -> Numbers:
    return run(cast_forward_inputs=True)


def fixed() -> Numbers:
    return run(cast_forward_inputs=False)
