"""A classifier whose hidden sums pass 65504, which a norm behind them takes back. Trained in FP32
it is right; the validation makes an FP16 copy, and its outputs are NaN.
"""

import copy

import torch
from torch import nn

Numbers = dict[str, float | bool]


def run(half: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(8, 32, generator=generator)
    labels = torch.randint(8, (256,), generator=generator)
    x = 40 * (centres[labels] + 0.3 * torch.randn(256, 32, generator=generator))
    first, norm, head = nn.Linear(32, 64), nn.BatchNorm1d(64), nn.Linear(64, 8)
    model = nn.Sequential(first, norm, nn.ReLU(), head)
    with torch.no_grad():
        for layer, size in ((first, 120.0), (head, 0.1)):
            layer.weight.copy_(size * torch.randn(layer.weight.shape, generator=generator))
            layer.bias.zero_()
        norm.train()
        for _ in range(60):
            norm(first(x))
    features = nn.functional.relu(norm.eval()(first(x))).detach()
    with torch.no_grad():  # fit the head in closed form
        wanted = nn.functional.one_hot(labels, 8).float() - 0.125
        gram = features.T @ features + 10 * torch.eye(64)
        head.weight.copy_(torch.linalg.solve(gram, features.T @ wanted).T)
    model.eval()
    used = copy.deepcopy(model).half() if half else model
    with torch.no_grad():
        out = used(x.half() if half else x)
        hidden = first(x).abs().max().item()
    right = (out.float().nan_to_num(0).argmax(-1) == labels).float().mean().item()
    return {
        "largest_hidden": hidden,
        "nan_outputs": int(torch.isnan(out).sum()),
        "outputs": out.numel(),
        "accuracy": right,
        "failed": bool(torch.isnan(out).any()),
    }


def broken() -> Numbers:
    return run(half=True)


def fixed() -> Numbers:
    return run(half=False)
