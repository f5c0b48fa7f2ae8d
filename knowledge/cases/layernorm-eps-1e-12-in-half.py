"""A LayerNorm in FP16 with BERT's eps of 1e-12: of a row of zeros (padding) it makes 0 * inf = NaN.
With 1e-5, or in FP32, it makes zeros.
"""

import torch

Numbers = dict[str, float | bool]


def layer_norm(x: torch.Tensor, eps: float) -> torch.Tensor:
    """Written out, every number in the dtype of x, as custom and exported kernels do."""
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    variance = centred.square().mean(-1, keepdim=True)
    return centred * torch.rsqrt(variance + torch.tensor(eps, dtype=x.dtype))


def run(eps: float) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 64, generator=generator).half()
    x[4:] = 0  # two positions of padding
    y = layer_norm(x, eps)
    attention = torch.softmax(y.float() @ y.float().T, -1) @ y.float()
    return {
        "eps_in_fp16": torch.tensor(eps).half().item(),
        "nan_rows_after_norm": int(torch.isnan(y).any(-1).sum()),
        "nan_rows_after_attention": int(torch.isnan(attention).any(-1).sum()),
        "rows": 6,
        "failed": bool(torch.isnan(y).any()),
    }


def broken() -> Numbers:
    return run(1e-12)


def fixed() -> Numbers:
    return run(1e-5)
