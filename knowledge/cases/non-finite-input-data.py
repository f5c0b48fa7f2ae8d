"""One NaN in one feature of one sample: standardising spreads it to the whole column, the first
layer to the sample.
"""

import torch

Numbers = dict[str, float | bool]


def run(checked: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(32, 8, generator=generator)
    x[7, 3] = float("nan")
    if checked:
        x = x[torch.isfinite(x).all(-1)]
    bad_inputs = int((~torch.isfinite(x)).sum())
    standard = (x - x.mean(0)) / x.std(0)
    torch.manual_seed(0)
    out = torch.nn.Linear(8, 4)(standard)
    return {
        "bad_inputs": bad_inputs,
        "nan_after_standardising": int(torch.isnan(standard).sum()),
        "nan_after_first_layer": int(torch.isnan(out).sum()),
        "failed": not bool(torch.isfinite(out).all()),
    }


def broken() -> Numbers:
    return run(checked=False)


def fixed() -> Numbers:
    return run(checked=True)
