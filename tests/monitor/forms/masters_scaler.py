"""An FP16 model, FP32 copies in the optimizer, and a GradScaler that skips steps at its start."""

import torch
from common import Net, batch, say_loss, say_weights

torch.manual_seed(0)
model = Net().half()
masters = [torch.nn.Parameter(p.detach().clone().float()) for p in model.parameters()]
optimizer = torch.optim.SGD(masters, lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18)
for step in range(8):
    x, y = batch(step)
    loss = (model(x.half()).float() - y).pow(2).mean()
    scaler.scale(loss).backward()
    say_loss(loss)
    for master, parameter in zip(masters, model.parameters(), strict=True):
        master.grad = parameter.grad.float()
        parameter.grad = None
    scaler.step(optimizer)
    scaler.update()
    for master, parameter in zip(masters, model.parameters(), strict=True):
        parameter.data.copy_(master.data)
say_weights(model.parameters())
