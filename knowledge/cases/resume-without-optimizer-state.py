"""Adam resumed from a checkpoint that holds the weights only: without its moments the first updates
are as large as the learning rate allows, and the loss jumps.
"""

import copy

import torch
from torch import nn

Numbers = dict[str, float | bool]


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, seed: int
) -> tuple[list[float], list[float]]:
    """Losses, and the root mean square of each update."""
    generator = torch.Generator().manual_seed(seed)
    losses, updates = [], []
    for _ in range(steps):
        x = torch.randn(256, 16, generator=generator)
        y = x.sum(-1, keepdim=True)
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        before = [p.detach().clone() for p in model.parameters()]
        optimizer.step()
        moved = torch.cat(
            [(p.detach() - b).flatten() for p, b in zip(model.parameters(), before, strict=True)]
        )
        updates.append(moved.square().mean().sqrt().item())
        losses.append(loss.item())
    return losses, updates


def run(saved: bool) -> Numbers:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses, updates = train(model, optimizer, 400, seed=0)
    checkpoint = {"model": model.state_dict()}
    if saved:
        checkpoint["optimizer"] = optimizer.state_dict()
    checkpoint = copy.deepcopy(checkpoint)

    resumed = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    resumed.load_state_dict(checkpoint["model"])
    optimizer = torch.optim.Adam(resumed.parameters(), lr=0.01)
    if "optimizer" in checkpoint:
        optimizer.load_state_dict(checkpoint["optimizer"])
    after, after_updates = train(resumed, optimizer, 50, seed=1)
    before = sum(losses[-20:]) / 20
    return {
        "loss_before": before,
        "first_loss_after": after[0],
        "greatest_loss_after": max(after[:20]),
        "update_before": updates[-1],
        "first_update_after": after_updates[0],
        "failed": max(after[:20]) > 3 * before,
    }


def broken() -> Numbers:
    return run(saved=False)


def fixed() -> Numbers:
    return run(saved=True)
