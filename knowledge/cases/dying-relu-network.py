"""Ten steps at a learning rate that is far too high push a hidden layer's inputs below zero: its
ReLU answers 0 to everything, no gradient comes back, and the output is a constant for good.
"""

import torch
from torch import nn

Numbers = dict[str, float | bool]


def run(activation: nn.Module, first_lr: float) -> Numbers:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), activation, nn.Linear(64, 64), activation)
    model.append(nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=first_lr)
    first = last = 0.0
    for step in range(200):
        x = torch.rand(64, 8, generator=generator)
        y = 10 + x.sum(-1, keepdim=True)
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        first = first or loss.item()
        last = loss.item()
        loss.backward()
        optimizer.step()
        if step == 9:
            optimizer.param_groups[0]["lr"] = 0.001
    x = torch.rand(256, 8, generator=generator)
    hidden = model[3](model[2](model[1](model[0](x))))
    zeros = (hidden == 0).float().mean().item()
    model.zero_grad()
    (model(x) - 10 - x.sum(-1, keepdim=True)).square().mean().backward()
    dead = sum(bool((p.grad == 0).all()) for p in model.parameters() if p.grad is not None)
    return {
        "first_lr": first_lr,
        "first_loss": first,
        "last_loss": last,
        "zeros_of_hidden_percent": 100 * zeros,
        "parameters_without_gradient": dead,
        "parameters": len(list(model.parameters())),
        "failed": zeros == 1.0,
    }


def broken() -> Numbers:
    return run(nn.ReLU(), first_lr=0.2)


def fixed() -> Numbers:
    return run(nn.ReLU(), first_lr=0.001)
