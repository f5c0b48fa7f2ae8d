"""An autocast region in which a running sum is FP32 and a product is 16-bit: writing the one into
the other by index raises, writing it by slice rounds in silence. Cast before the write it works.
"""

import torch

Numbers = dict[str, float | bool]


def run(cast: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 16, generator=generator)
    weight = torch.randn(16, 16, generator=generator)
    rows = torch.tensor([1, 4])
    raised, rounded = 0, 0.0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = x @ weight  # 16 bits
        context = value.cumsum(0, dtype=torch.float32)  # what CUDA's autocast makes of cumsum
        new = value[rows] * 2
        try:
            context[rows] = new.to(context.dtype) if cast else new
        except RuntimeError as error:
            raised = int("Index put requires the source and destination dtypes match" in str(error))
        exact = value.cumsum(0, dtype=torch.float32)
        target = value.clone()
        target[:] = exact  # a slice is copied, and rounded to 16 bits without a word
        rounded = (target.float() - exact).abs().max().item()
    return {
        "bits_of_product": 8 * value.element_size(),
        "bits_of_running_sum": 8 * context.element_size(),
        "raised": raised,
        "largest_rounding_of_the_slice": rounded,
        "failed": bool(raised),
    }


def broken() -> Numbers:
    return run(cast=False)


def fixed() -> Numbers:
    return run(cast=True)
