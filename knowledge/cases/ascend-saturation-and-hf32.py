"""Saturating FP16, as older Ascend chips have it, imitated with clamp: gradients that overflow
become 65504 and NaN 0, a scaler that looks for inf finds nothing, and the clipped step is taken.
"""

import torch

Numbers = dict[str, float | bool]


def to_half(x: torch.Tensor, saturate: bool) -> torch.Tensor:
    if saturate:  # what the chip does: inf and beyond become the largest number, NaN becomes 0
        return x.nan_to_num(0.0).clamp(-65504, 65504).half()
    return x.half()


def run(saturate: bool) -> Numbers:
    scale = 65536.0
    exact = torch.tensor([0.25, 5.0, -20.0, 0.5])
    arrived = to_half(exact * scale, saturate)
    found_inf = not bool(torch.isfinite(arrived).all())
    weight = torch.zeros(4)
    if not found_inf:  # GradScaler.step
        weight -= 0.1 * arrived.float() / scale
    wanted = -0.1 * exact
    stepped = bool((weight != 0).any())
    direction = torch.nn.functional.cosine_similarity(weight, wanted, dim=0).item()
    return {
        "largest_arrived": arrived.float().abs().max().item(),
        "overflow_seen": found_inf,
        "stepped": stepped,
        "cosine_with_true_step": direction if stepped else 0.0,
        "exp_12": to_half(torch.tensor([12.0]).exp(), saturate).item(),
        "failed": stepped and direction < 0.99,
    }


def broken() -> Numbers:
    return run(saturate=True)


def fixed() -> Numbers:
    return run(saturate=False)
