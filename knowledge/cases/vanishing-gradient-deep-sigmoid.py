"""Twelve sigmoid layers: each divides the gradient by several times, so that the first has next to
none and does not learn. With ReLU and He initialisation it does.
"""

import torch
from torch import nn

Numbers = dict[str, float | bool]

DEPTH = 12


def run(sigmoid: bool) -> Numbers:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(DEPTH):
        linear = nn.Linear(32, 32)
        if not sigmoid:
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        layers += [linear, nn.Sigmoid() if sigmoid else nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(32, 1))
    start = model[0].weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.003)
    first_gradient = last_gradient = 0.0
    losses = []
    for step in range(300):
        x = torch.randn(64, 32, generator=generator)
        y = x[:, :4].sum(-1, keepdim=True)
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        if step == 0:
            first_gradient = model[0].weight.grad.abs().max().item()
            last_gradient = model[-1].weight.grad.abs().max().item()
        optimizer.step()
        losses.append(loss.item())
    moved = (model[0].weight.detach() - start).norm() / start.norm()
    return {
        "layers": DEPTH,
        "first_gradient": first_gradient,
        "last_gradient": last_gradient,
        "ratio_per_layer": (last_gradient / first_gradient) ** (1 / DEPTH),
        "moved_of_first_weight": moved.item(),
        "first_loss": losses[0],
        "last_loss": sum(losses[-20:]) / 20,
        "failed": moved.item() < 1e-5,
    }


def broken() -> Numbers:
    return run(sigmoid=True)


def fixed() -> Numbers:
    return run(sigmoid=False)
