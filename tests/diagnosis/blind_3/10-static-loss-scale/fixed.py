"""Depth completion toy: FP16 network, FP32 master weights, loss scaling by hand."""
import copy

import torch
import torch.nn as nn

torch.manual_seed(0)
LOSS_SCALE = 64.0

model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))
master = copy.deepcopy(model)
model = model.half()
optimizer = torch.optim.SGD(master.parameters(), lr=5e-3, momentum=0.9)
target_map = torch.randn(32, 16) / 3

for step in range(100):
    x = torch.randn(32, 32)
    y = (x @ target_map).abs()
    prediction = model(x.half()).float()
    loss = (prediction - y).pow(2).sum(1).mean()
    model.zero_grad()
    (loss * LOSS_SCALE).backward()
    for m, p in zip(master.parameters(), model.parameters()):
        m.grad = p.grad.float() / LOSS_SCALE
    optimizer.step()
    with torch.no_grad():
        for m, p in zip(master.parameters(), model.parameters()):
            p.copy_(m)
    if step % 10 == 0 or step == 99:
        print(f"step {step} loss {loss.item():.4f}")
