"""|x|^2 + |y|^2 - 2xy in FP16 for points that lie close together and far from zero: negative
squared distances, NaN under the root. Centred and in FP32 all are right.
"""

import torch

Numbers = dict[str, float | bool]


def expanded(x: torch.Tensor) -> torch.Tensor:
    norms = x.square().sum(-1)
    return norms[:, None] + norms[None, :] - 2 * (x @ x.T)


def run(centred: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    points = (10 + 0.1 * torch.randn(64, 3, generator=generator)).half()
    exact = torch.cdist(points.double(), points.double())
    if centred:
        x = points.float()
        squared = expanded(x - x.mean(0, keepdim=True)).clamp_min(0)
    else:
        squared = expanded(points)
    distance = squared.sqrt()
    others = ~torch.eye(64, dtype=torch.bool)
    error = ((distance.double() - exact)[others].abs() / exact[others].mean()).nan_to_num(1.0)
    return {
        "mean_distance": exact[others].mean().item(),
        "negative_percent": 100 * (squared < 0)[others].double().mean().item(),
        "nan_percent": 100 * torch.isnan(distance)[others].double().mean().item(),
        "median_error_percent": 100 * error.median().item(),
        "failed": bool(torch.isnan(distance).any()),
    }


def broken() -> Numbers:
    return run(centred=False)


def fixed() -> Numbers:
    return run(centred=True)
