"""All parameters are views of one buffer, which is what the optimizer holds."""

import torch
from common import Net, batch, say_loss, say_weights

torch.manual_seed(0)
model = Net()
size = sum(p.numel() for p in model.parameters())
flat = torch.nn.Parameter(torch.empty(size))
flat.grad = torch.zeros(size)
at = 0
for parameter in model.parameters():
    part = slice(at, at + parameter.numel())
    flat.data[part].copy_(parameter.data.flatten())
    parameter.data = flat.data[part].view_as(parameter)
    parameter.grad = flat.grad[part].view_as(parameter)
    at += parameter.numel()
optimizer = torch.optim.SGD([flat], lr=0.05)
for step in range(8):
    x, y = batch(step)
    loss = (model(x) - y).pow(2).mean()
    flat.grad.zero_()
    loss.backward()
    say_loss(loss)
    optimizer.step()
say_weights([flat])
