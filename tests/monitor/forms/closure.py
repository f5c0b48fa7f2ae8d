"""LBFGS with a closure, on tensors that no module holds."""

import torch
from common import batch, say_loss, say_weights

torch.manual_seed(0)
weight = (torch.randn(8, 1) * 0.1).requires_grad_()
bias = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.LBFGS([weight, bias], lr=0.1, max_iter=3)
for step in range(5):
    x, y = batch(step)

    def closure(x=x, y=y):
        optimizer.zero_grad()
        loss = (x @ weight + bias - y).pow(2).mean()
        loss.backward()
        return loss

    say_loss(optimizer.step(closure))
say_weights([weight, bias])
