"""F.normalize of a zero row: NaN in FP16 with the default eps, 0 in FP32."""

import torch
from torch.nn import functional

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float16)
    z = functional.normalize(x.to(dtype), dim=-1)
    return {
        "eps_stored": torch.tensor(1e-12, dtype=dtype).item(),
        "first": z[0, 0].item(),
        "nan": int(torch.isnan(z).sum()),
        "failed": not bool(torch.isfinite(z).all()),
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
