"""Digit-like patterns, FP16 autocast with GradScaler and gradient clipping."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(29)
pattern = torch.randn(10, 36)
net = nn.Sequential(nn.Linear(36, 48), nn.ReLU(), nn.Linear(48, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

for step in range(80):
    y = torch.randint(0, 10, (32,))
    x = pattern[y] + 0.8 * torch.randn(32, 36)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        logits = net(x)
    loss = F.cross_entropy(logits.float(), y)
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # @fault
    scaler.step(optimizer)
    scaler.update()
    if step % 10 == 0 or step == 79:
        print(f"step {step} loss {loss.item():.4f}")
