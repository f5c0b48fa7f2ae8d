"""A schedule whose rate is a hundred times its neighbours' for five steps ruins a training that had
converged. And CosineAnnealingLR with a T_max of half the run, which climbs back to its maximum.
"""

import torch
from torch import nn

Numbers = dict[str, float | bool]

STEPS, SPIKE = 400, 300


def run(spiked: bool) -> Numbers:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def factor(step: int) -> float:
        rate = max(0.0, 1 - step / STEPS)
        return rate * (100.0 if spiked and SPIKE <= step < SPIKE + 5 else 1.0)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    losses, rates = [], []
    for _ in range(STEPS):
        x = torch.randn(64, 8, generator=generator)
        y = (x[:, :1] * x[:, 1:2]) + 3
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    before = sum(losses[SPIKE - 20 : SPIKE]) / 20
    after = losses[SPIKE + 1 : SPIKE + 40]
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(
        torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1), T_max=50
    )
    course = [cosine.get_last_lr()[0]]
    for _ in range(100):
        cosine.optimizer.step()
        cosine.step()
        course.append(cosine.get_last_lr()[0])
    return {
        "lr_before": rates[SPIKE - 1],
        "lr_at_spike": rates[SPIKE],
        "loss_before": before,
        "greatest_loss_after": max(after),
        "last_loss": losses[-1],
        "cosine_lr_at_50": course[50],
        "cosine_lr_at_100": course[100],
        "failed": max(after) > 10 * before,
    }


def broken() -> Numbers:
    return run(spiked=True)


def fixed() -> Numbers:
    return run(spiked=False)
