"""Accumulation over eight micro-batches, warm-up counted in micro-batches."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)
MICRO, WARMUP, PEAK = 8, 800, 0.2


class Warmup:
    """Kept as a tensor so that it is saved and moved with the rest of the model's state."""

    def __init__(self, optimizer, like):
        self.optimizer = optimizer
        self.seen = torch.zeros((), dtype=like)  # @fault

    def count(self):
        self.seen += 1
        for group in self.optimizer.param_groups:
            group["lr"] = PEAK * min(1.0, self.seen.item() / WARMUP)


net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
warmup = Warmup(optimizer, torch.bfloat16)
rule = torch.randn(20, 10)

for step in range(110):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(MICRO):
        x = torch.randn(16, 20)
        y = (x @ rule).argmax(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net(x)
        loss = F.cross_entropy(logits.float(), y) / MICRO
        loss.backward()
        warmup.count()
        total += loss.item()
    optimizer.step()
    if step % 10 == 0 or step == 109:
        print(f"step {step} loss {total:.4f} lr {optimizer.param_groups[0]['lr']:.4f}")
