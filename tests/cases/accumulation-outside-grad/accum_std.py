"""FP32 buffer accumulation, plain FP32 model, 4 micro-batches."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 5))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
proj = torch.randn(16, 5)
for step in range(40):
    sums = [torch.zeros_like(p) for p in net.parameters()]
    for i in range(4):
        x = torch.randn(32, 16)
        loss = nn.functional.cross_entropy(net(x), (x @ proj).argmax(-1)) / 4
        loss.backward()
        if False:
            pass
    opt.step()
    for p in net.parameters():
        p.grad = None
