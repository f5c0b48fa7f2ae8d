"""An optimizer that divides by the loss scale inside its step and is told to clip a norm that was
divided already: the scale is divided out twice, and the updates are 65536 times too small.
"""

import torch

Numbers = dict[str, float | bool]

SCALE, LIMIT = 65536.0, 1.0


class FusedSgd:
    """Like a fused optimizer: one factor for unscaling and clipping, applied in the step."""

    def __init__(self, weight: torch.Tensor, lr: float) -> None:
        self.weight, self.lr, self.factor = weight, lr, 1.0

    def step(self) -> None:
        self.weight.sub_(self.lr * self.factor * self.gradient)

    def receive(self, scaled: torch.Tensor) -> None:
        self.gradient, self.factor = scaled, 1.0 / SCALE  # the scaler's unscale_()


def run(one_definition: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(16, generator=generator)
    weight = torch.zeros(16)
    optimizer = FusedSgd(weight, lr=0.1)
    reported = 0.0
    for step in range(200):
        gradient = 2 * (weight - target)  # of (weight - target)²
        optimizer.receive(SCALE * gradient)
        stored = optimizer.gradient.norm().item()  # of what is in the buffers: scaled
        if one_definition:
            norm = stored * optimizer.factor
            optimizer.factor *= min(1.0, LIMIT / (norm + 1e-6))
        else:
            norm = stored
            optimizer.factor *= min(1.0, LIMIT / (norm + 1e-6))  # a scaled norm, and unscaled again
        if step == 0:
            reported, true = norm, gradient.norm().item()
        optimizer.step()
    loss = (weight - target).square().mean().item()
    return {
        "loss_scale": SCALE,
        "true_norm": true,
        "norm_that_clips": reported,
        "loss_at_the_start": target.square().mean().item(),
        "loss_after_200_steps": loss,
        "failed": loss > 0.5 * target.square().mean().item(),
    }


def broken() -> Numbers:
    return run(one_definition=False)


def fixed() -> Numbers:
    return run(one_definition=True)
