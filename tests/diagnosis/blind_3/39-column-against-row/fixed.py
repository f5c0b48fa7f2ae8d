"""House prices from a dozen features."""
import torch
import torch.nn as nn

torch.manual_seed(34)
w = torch.randn(12)
net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)

for step in range(120):
    x = torch.randn(64, 12)
    price = x @ w + x[:, 0] * x[:, 1]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prediction = net(x)
    loss = (prediction.float().squeeze(1) - price).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == 119:
        print(f"step {step} loss {loss.item():.4f}")
