"""FP8 codes of a weight are made at the first micro-batch and kept; the scale that belongs to them
is updated after it. From the second micro-batch on, codes and scale do not fit.
"""

import torch

Numbers = dict[str, float | bool]


def run(keep_scale_with_codes: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    weight = 0.05 * torch.randn(128, 128, generator=generator)
    x = torch.rand(64, 128, generator=generator)
    true = x @ weight.T
    scale = torch.ones(())  # not calibrated yet
    codes, codes_scale = weight.to(torch.float8_e4m3fn), scale
    worst = []
    for micro_batch in range(3):
        if micro_batch == 0:
            codes = (weight / scale).to(torch.float8_e4m3fn)
            codes_scale = scale
        used = codes.float() * (codes_scale if keep_scale_with_codes else scale)
        worst.append((x @ used.T - true).abs().max().item())
        scale = weight.abs().max() / 448  # delayed scaling: updated behind each forward pass
    return {
        "largest_difference_micro_batch_0": worst[0],
        "largest_difference_micro_batch_1": worst[1],
        "largest_difference_micro_batch_2": worst[2],
        "largest_output": true.abs().max().item(),
        "failed": worst[1] > 2 * worst[0],
    }


def broken() -> Numbers:
    return run(keep_scale_with_codes=False)


def fixed() -> Numbers:
    return run(keep_scale_with_codes=True)
