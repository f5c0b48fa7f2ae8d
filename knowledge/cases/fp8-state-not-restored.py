"""Delayed scaling keeps its scale outside of the checkpoint: after a resume the scale is 1 again
and small values become 0. As buffers, scale and history come back.
"""

import torch

Numbers = dict[str, float | bool]


class Float8Linear(torch.nn.Module):
    """One delayed scale for the input, from the largest magnitude of earlier steps."""

    def __init__(self, saved: bool) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 64, bias=False)
        self.register_buffer("scale", torch.ones(()), persistent=saved)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert isinstance(self.scale, torch.Tensor)
        codes = (x / self.scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        x_rounded = codes.float() * self.scale
        self.scale.copy_(x.abs().max() / 448)  # for the next step
        return self.linear(x_rounded)


def run(saved: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = 1e-3 * torch.randn(32, 64, generator=generator)
    weight = torch.randn(64, 64, generator=generator)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        before, after = Float8Linear(saved), Float8Linear(saved)
        before.linear.weight.copy_(weight)
        for _ in range(3):
            out = before(x)
        after.load_state_dict(before.state_dict())
        first = after(x)
        second = after(x)
    true = x @ weight.T
    error = ((first - true).norm() / true.norm()).item()
    return {
        "error_before_resume": ((out - true).norm() / true.norm()).item(),
        "error_first_step_after": error,
        "error_second_step_after": ((second - true).norm() / true.norm()).item(),
        "failed": error > 0.2,
    }


def broken() -> Numbers:
    return run(saved=False)


def fixed() -> Numbers:
    return run(saved=True)
