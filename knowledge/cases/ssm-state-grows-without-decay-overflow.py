"""A state-space layer whose decay rate has drifted to zero adds up its inputs: the output passes
65504 and is infinite in FP16. Bounded decay and a norm in front of the cast keep it finite.
"""

import torch

Numbers = dict[str, float | bool]

LENGTH = 4096


def scan(a: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """y[t] = h[t] of h[t] = exp(a) h[t-1] + u[t], in FP32 as the kernels do it."""
    state = torch.zeros_like(a)
    decay = torch.exp(a)
    states = []
    for x in u:
        state = decay * state + x
        states.append(state)
    return torch.stack(states)


def run(bounded: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    a_log = torch.full((8,), -14.0)  # started at 0, pushed down by the optimizer
    u = 20 + 5 * torch.randn(LENGTH, 8, generator=generator)
    a = -torch.exp(a_log)
    if bounded:
        a = a.clamp(max=-1e-2)
    y = scan(a, u)
    largest = y.abs().max().item()
    if bounded:
        y = torch.nn.functional.rms_norm(y, (8,), eps=1e-5)
    out = y.half() @ torch.full((8, 1), 0.125, dtype=torch.float16)
    return {
        "largest_input": u.abs().max().item(),
        "decay_per_step": torch.exp(a)[0].item(),
        "largest_state": largest,
        "infinite": int(torch.isinf(out).sum()),
        "failed": not bool(torch.isfinite(out).all()),
    }


def broken() -> Numbers:
    return run(bounded=False)


def fixed() -> Numbers:
    return run(bounded=True)
