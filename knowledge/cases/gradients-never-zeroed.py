"""Without zero_grad() every backward adds to the sum of all gradients before it: the update turns
into a sum over the past, and a rate that converges otherwise swings out.
"""

import torch

Numbers = dict[str, float | bool]


def run(zero: bool) -> Numbers:
    weight = torch.nn.Parameter(torch.tensor(1.0))
    optimizer = torch.optim.SGD([weight], lr=0.3)
    largest = 0.0
    for _ in range(100):
        if zero:
            optimizer.zero_grad()
        (0.5 * weight**2).backward()
        assert weight.grad is not None
        largest = max(largest, weight.grad.abs().item())
        optimizer.step()
    loss = 0.5 * weight.item() ** 2
    return {
        "steps": 100,
        "largest_gradient": largest,
        "last_loss": loss,
        "failed": loss > 1e-3,
    }


def broken() -> Numbers:
    return run(zero=False)


def fixed() -> Numbers:
    return run(zero=True)
