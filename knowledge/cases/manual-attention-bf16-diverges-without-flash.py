"""Attention by hand under autocast: `q.float() @ k.float()` is a BF16 product again, and scores
near 60 lie 0.25 apart. With autocast off around it the probabilities are right.
"""

import torch

Numbers = dict[str, float | bool]

LENGTH, WIDTH = 256, 64


def run(autocast_off: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(LENGTH, WIDTH, generator=generator).bfloat16() for _ in range(3))
    q = 12 * q
    exact = (q.double() @ k.double().T / WIDTH**0.5).softmax(-1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.autocast("cpu", enabled=not autocast_off, dtype=torch.bfloat16):
            scores = (q.float() @ k.float().T) * WIDTH**-0.5
        p = scores.softmax(-1)
    fused = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
    exact_output = exact @ v.double()
    error = (p - exact).abs().max().item()
    output_error = (p.double() @ v.double() - exact_output).norm() / exact_output.norm()
    fused_error = (fused - exact_output).norm() / exact_output.norm()
    return {
        "bits_of_scores": 8 * scores.element_size(),
        "largest_score": scores.abs().max().item(),
        "largest_error_of_p": error,
        "output_error_percent": 100 * output_error.item(),
        "fused_output_error_percent": 100 * fused_error.item(),
        "failed": error > 0.01,
    }


def broken() -> Numbers:
    return run(autocast_off=False)


def fixed() -> Numbers:
    return run(autocast_off=True)
