"""The parameters that set the time scales of a Mamba layer, held in BF16: 100 AdamW steps with lr
6e-4 move no A_log above 0.5 and no dt_bias, and rounding alone changes the step sizes.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    exact_a_log = torch.arange(2, 17).log()
    # dt between 0.001 and 0.1, kept as the inverse of softplus, as Mamba starts it.
    dt = torch.logspace(-3, -1, 15)
    exact_bias = dt + torch.log(-torch.expm1(-dt))
    a_log = torch.nn.Parameter(exact_a_log.to(dtype))
    bias = torch.nn.Parameter(exact_bias.to(dtype))
    a_before, bias_before = a_log.detach().clone(), bias.detach().clone()
    stored_dt = torch.nn.functional.softplus(bias.detach().double())
    rounding = ((stored_dt - dt) / dt).abs().max().item()
    optimizer = torch.optim.AdamW([a_log, bias], lr=6e-4, weight_decay=0.0)
    for _ in range(100):
        a_log.grad = torch.full_like(a_log, 0.01)
        bias.grad = torch.full_like(bias, 0.01)
        optimizer.step()
    moved = int((a_log != a_before).sum() + (bias != bias_before).sum())
    return {
        "parameters": a_log.numel() + bias.numel(),
        "moved": moved,
        "dt_rounding_percent": 100 * rounding,
        "largest_change": (a_before - a_log.detach()).abs().max().item(),
        "failed": moved == 0,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
