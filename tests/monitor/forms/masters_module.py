"""The master weights are a module of their own. Fault: a logarithm of a negative number."""

import copy

import torch
from common import Net, batch, say_loss, say_weights

torch.manual_seed(0)
masters = Net()
model = copy.deepcopy(masters).bfloat16()
optimizer = torch.optim.AdamW(masters.parameters(), lr=0.01)
for step in range(8):
    x, y = batch(step)
    output = model(x.bfloat16()).float()
    loss = (output - y).pow(2).mean()
    if step == 5:
        loss = loss + torch.log(output - 10.0).mean()  # @fault
    loss.backward()
    say_loss(loss)
    for master, parameter in zip(masters.parameters(), model.parameters(), strict=True):
        master.grad = parameter.grad.float()
        parameter.grad = None
    optimizer.step()
    for master, parameter in zip(masters.parameters(), model.parameters(), strict=True):
        parameter.data.copy_(master.data)
say_weights(model.parameters())
