"""RMSNorm that squares in FP16: for |x| >= 256 the square is inf, rsqrt(inf) is 0, and the token
becomes zeros.
"""

import torch

Numbers = dict[str, float | bool]


def run(upcast: bool) -> Numbers:
    x = torch.tensor([[1.0, -2.0, 3.0, 0.5], [300.0, -2.0, 3.0, 0.5]], dtype=torch.float16)
    h = x.float() if upcast else x
    y = (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
    return {
        "largest_input": x.abs().max().item(),
        "limit": 65504.0**0.5,
        "zeros_in_second_token": int((y[1] == 0).sum()),
        "nan": int(torch.isnan(y).sum()),
        "failed": bool((y[1] == 0).all()),
    }


def broken() -> Numbers:
    return run(upcast=False)


def fixed() -> Numbers:
    return run(upcast=True)
