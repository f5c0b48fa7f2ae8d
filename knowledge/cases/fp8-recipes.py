"""One token far larger than the others: with one E4M3 scale for the tensor the others lose their
digits, with a scale for each row they do not.
"""

import torch

Numbers = dict[str, float | bool]


def to_e4m3(x: torch.Tensor, by_row: bool) -> torch.Tensor:
    largest = x.abs().amax(-1, keepdim=True) if by_row else x.abs().max()
    scale = largest / 448
    return (x / scale).to(torch.float8_e4m3fn).float() * scale


def error(x: torch.Tensor, by_row: bool) -> float:
    rest = x[1:]
    return ((to_e4m3(x, by_row)[1:] - rest).norm() / rest.norm()).item()


def run(by_row: bool) -> Numbers:
    calm = torch.randn(256, 256, generator=torch.Generator().manual_seed(0))
    outlier = calm.clone()
    outlier[0] *= 1e5
    with_outlier = error(outlier, by_row)
    return {
        "error_without_outlier": error(calm, by_row),
        "error_with_outlier": with_outlier,
        "failed": with_outlier > 0.05,
    }


def broken() -> Numbers:
    return run(by_row=False)


def fixed() -> Numbers:
    return run(by_row=True)
