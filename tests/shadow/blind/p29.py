"""Fine-tuning a linear probe from a solution that already fits the data."""

import os

import torch

torch.set_num_threads(1)
torch.manual_seed(191)
REAL = torch.float64 if os.environ.get("REF") else torch.float32

features = torch.randn(300, 20, dtype=torch.float64)
weight = torch.randn(20, 3, dtype=torch.float64)
targets = features @ weight
shifted = targets + 0.2

start = torch.linalg.lstsq(features.to(REAL), targets.to(REAL)).solution
head = torch.nn.Linear(20, 3).to(REAL)
with torch.no_grad():
    head.weight.copy_(start.t())
    head.bias.zero_()
optimizer = torch.optim.SGD(head.parameters(), lr=0.2, momentum=0.5)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 120)

for step in range(120):
    x, y = features.to(REAL), (targets if step < 40 else shifted).to(REAL)
    loss = torch.nn.functional.mse_loss(head(x), y)
    optimizer.zero_grad()
    loss.backward()
    size = torch.nn.utils.get_total_norm([p.grad for p in head.parameters()])
    optimizer.step()
    schedule.step()
    if step % 10 == 0:
        print(f"step {step:3d} loss {loss.item():.3e} gradient {size.item():.3e}")

error = (head.weight.detach().double().t() - weight).abs().max()
print(f"last loss {loss.item():.3e}  largest error of a weight {error.item():.3e}")
