"""Gradient accumulation over micro-batches: where are the sums held?"""

import torch
from torch import nn

torch.manual_seed(0)
MICRO = 64
MAIN_GRADS = False  # fixed: an FP32 buffer beside the BF16 gradients
net = nn.Sequential(
    nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 5)
).bfloat16()
master = [p.detach().float().clone().requires_grad_(True) for p in net.parameters()]
opt = torch.optim.AdamW(master, lr=2e-3)
proj = torch.randn(16, 5)
for step in range(40):
    x = torch.randn(MICRO, 8, 16)
    y = (x @ proj).argmax(-1)
    total = 0.0
    sums = [torch.zeros_like(m) for m in master]
    for i in range(MICRO):
        loss = nn.functional.cross_entropy(net(x[i].bfloat16()).float(), y[i]) / MICRO
        loss.backward()  # @fault
        total += loss.item()
        if MAIN_GRADS:
            for s, p in zip(sums, net.parameters()):
                s += p.grad.float()
                p.grad = None
    for m, s, p in zip(master, sums, net.parameters()):
        m.grad = s if MAIN_GRADS else p.grad.float()
        p.grad = None
    norm = nn.utils.clip_grad_norm_(master, 1.0)
    opt.step()
    with torch.no_grad():
        for m, p in zip(master, net.parameters()):
            p.copy_(m)
    if step % 8 == 0:
        print(f"step {step} loss {total:.5f} grad_norm {norm.item():.6f}")
