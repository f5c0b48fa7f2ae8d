"""Training with weights kept as float8_e5m2 between the steps."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(16)
STORE = torch.float8_e5m2
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
question = torch.randn(16, 6)
store = [p.detach().clone() for p in model.parameters()]

for step in range(120):
    with torch.no_grad():
        for p, s in zip(model.parameters(), store):
            p.copy_(s.to(STORE).float())
    x = torch.randn(64, 16)
    y = (x @ question).argmax(1)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p, s in zip(model.parameters(), store):
            p.copy_(s)
    optimizer.step()
    store = [p.detach().clone() for p in model.parameters()]
    if step % 20 == 0 or step == 119:
        print(f"step {step} loss {loss.item():.4f}")
