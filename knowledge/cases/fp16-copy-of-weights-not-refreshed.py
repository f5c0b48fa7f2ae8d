"""A layer keeps an FP16 copy of its weight for speed and makes it once: an evaluation after
training runs with the weights of the first step. Refreshed after each update it does not.
"""

import torch

Numbers = dict[str, float | bool]


class Layer(torch.nn.Module):
    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(0.1 * torch.randn(16, 1, generator=generator))
        self.half: torch.Tensor | None = None

    def refresh(self) -> None:
        self.half = self.weight.detach().half()

    def fast(self, x: torch.Tensor) -> torch.Tensor:
        if self.half is None:
            self.refresh()
        assert self.half is not None
        return (x.half() @ self.half).float()


def run(refreshed: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(256, 16, generator=generator)
    y = x @ torch.randn(16, 1, generator=generator)
    layer = Layer(generator)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    first = 0.0
    for step in range(150):
        loss = (x @ layer.weight - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if refreshed:
            layer.refresh()
        if step == 0:
            first = (layer.fast(x) - y).square().mean().item()  # an early evaluation fills the copy
    evaluated = (layer.fast(x) - y).square().mean().item()
    loaded = Layer(torch.Generator().manual_seed(1))
    loaded.load_state_dict(layer.state_dict())  # the same FP32 weights in a new process
    return {
        "training_loss": loss.item(),
        "first_evaluation": first,
        "evaluation_in_training": evaluated,
        "evaluation_of_saved_weights": (loaded.fast(x) - y).square().mean().item(),
        "largest_difference_of_the_copy": (layer.half.float() - layer.weight).abs().max().item(),
        "failed": not torch.equal(layer.half, layer.weight.detach().half()),
    }


def broken() -> Numbers:
    return run(refreshed=False)


def fixed() -> Numbers:
    return run(refreshed=True)
