"""Credit scoring from a table; columns are standardised in each batch."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(22)
w = torch.randn(10)


def table(n):
    x = torch.randn(n, 10) * torch.logspace(0, 3, 10) + 5
    x[:, 3] = (torch.rand(n) < 0.06).float()
    z = x[:, [0, 1, 2, 4]] / torch.logspace(0, 3, 10)[[0, 1, 2, 4]]
    return x, ((z @ w[:4] + 2 * x[:, 3]) > w[:4].sum() * 2).float()


def standardise(x):
    return (x - x.mean(0)) / x.std(0).clamp(min=1e-2)


model = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(120):
    x, y = table(64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(standardise(x)).squeeze(1)
    loss = F.binary_cross_entropy_with_logits(logits.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == 119:
        print(f"step {step} loss {loss.item():.4f}")
