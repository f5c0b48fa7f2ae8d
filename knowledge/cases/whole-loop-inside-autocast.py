"""A step inside the autocast block: the next forward uses the cached BF16 copy of the weights from
before the step.
"""

import torch

Numbers = dict[str, float | bool]


def run(step_inside: bool) -> Numbers:
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    x = torch.ones(4, 8)

    def step(loss: torch.Tensor) -> None:
        loss.backward()
        optimizer.step()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        first = model(x).float().mean()
        if step_inside:
            step(first)
            second = model(x).float().mean()
    if not step_inside:
        step(first)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            second = model(x).float().mean()
    exact = (x @ model.weight.detach().T).mean()
    return {
        "output_before": first.item(),
        "output_after": second.item(),
        "output_with_new_weights": exact.item(),
        "failed": abs(second.item() - exact.item()) > 0.5,
    }


def broken() -> Numbers:
    return run(step_inside=True)


def fixed() -> Numbers:
    return run(step_inside=False)
