"""Autocast's FP32 list of the CPU has no exp, softmax or layer_norm: they stay BF16, where CUDA's
autocast would compute them in FP32.
"""

import math

import torch

Numbers = dict[str, float | bool]


def run(cast_by_hand: bool) -> Numbers:
    linear = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        linear.weight.fill_(2.5)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        y = linear(torch.ones(1, 1))
        if cast_by_hand:
            y = y.float()
        power = y.exp()
        soft = y.softmax(-1)
        norm = torch.nn.functional.layer_norm(y, (1,))
    error = abs(power.item() - math.exp(2.5)) / math.exp(2.5)
    return {
        "exp_relative_error": error,
        "exp_bits": torch.finfo(power.dtype).bits,
        "softmax_bits": torch.finfo(soft.dtype).bits,
        "layer_norm_bits": torch.finfo(norm.dtype).bits,
        "failed": error > 1e-6,
    }


def broken() -> Numbers:
    return run(cast_by_hand=False)


def fixed() -> Numbers:
    return run(cast_by_hand=True)
