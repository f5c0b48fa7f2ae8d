"""torch.func.vjp on tensors without a module. Fault: a product of infinity and zero."""

import torch
from common import batch, say_loss, say_weights
from torch.func import vjp

torch.manual_seed(0)
weights = (torch.randn(8, 16) * 0.3, torch.randn(16, 1) * 0.3)
for step in range(6):
    x, y = batch(step)

    def compute_loss(first, last, x=x, y=y, step=step):
        loss = (torch.tanh(x @ first) @ last - y).pow(2).mean()
        if step == 4:
            loss = loss * torch.exp(loss.detach() * 0 + 200) * 0.0  # @fault
        return loss

    loss, pull = vjp(compute_loss, *weights)
    gradients = pull(torch.ones(()))
    say_loss(loss)
    weights = tuple(p - 0.05 * g for p, g in zip(weights, gradients, strict=True))
say_weights(weights)
