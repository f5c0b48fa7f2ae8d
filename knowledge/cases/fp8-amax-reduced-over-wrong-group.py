"""Two tensor-parallel ranks hold parts of one tensor and take their FP8 scales from their own
part: after the all-gather one rank's codes are read with the other's scale. One maximum over both
is right.
"""

import torch

Numbers = dict[str, float | bool]


def run(reduce_over_both: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(64, 64, generator=generator), 4 * torch.randn(64, 64, generator=generator)]
    largest = [part.abs().max() for part in parts]
    if reduce_over_both:
        largest = [torch.stack(largest).max()] * 2
    scales = [value / 448 for value in largest]
    codes = [
        (part / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        for part, scale in zip(parts, scales, strict=True)
    ]
    gathered = torch.cat([code.float() for code in codes])  # what each rank receives
    true = torch.cat(parts)
    errors = [((gathered * scale - true).norm() / true.norm()).item() for scale in scales]
    return {
        "scale_rank_0": scales[0].item(),
        "scale_rank_1": scales[1].item(),
        "error_rank_0": errors[0],
        "error_rank_1": errors[1],
        "failed": max(errors) > 0.1,
    }


def broken() -> Numbers:
    return run(reduce_over_both=False)


def fixed() -> Numbers:
    return run(reduce_over_both=True)
