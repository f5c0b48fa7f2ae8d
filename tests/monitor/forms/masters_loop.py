"""A BF16 model; the optimizer holds FP32 copies of its parameters."""

import torch
from common import Net, batch, say_loss, say_weights

torch.manual_seed(0)
model = Net().bfloat16()
masters = [p.detach().clone().float().requires_grad_() for p in model.parameters()]
optimizer = torch.optim.SGD(masters, lr=0.05, momentum=0.9)
for step in range(8):
    x, y = batch(step)
    loss = (model(x.bfloat16()).float() - y).pow(2).mean()
    model.zero_grad()
    loss.backward()
    say_loss(loss)
    for master, parameter in zip(masters, model.parameters(), strict=True):
        master.grad = parameter.grad.float()
    optimizer.step()
    with torch.no_grad():
        for master, parameter in zip(masters, model.parameters(), strict=True):
            parameter.copy_(master)
say_weights(model.parameters())
