"""Recognising 399 products; features and ids are packed into one table."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(21)
PRODUCTS = 399
prototype = torch.randn(PRODUCTS, 32)


def load(n, dtype=torch.float32):
    product = torch.randint(0, PRODUCTS, (n,))
    feature = prototype[product] + 0.3 * torch.randn(n, 32)
    table = torch.cat([feature, product[:, None].float()], 1)
    return table.to(dtype), product


net = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, PRODUCTS))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
for step in range(80):
    table, product = load(192)
    x, y = table[:, :-1], table[:, -1].long()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(x)
    loss = F.cross_entropy(logits.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == 79:
        accuracy = (logits.argmax(1) == product).float().mean().item()
        print(f"step {step} loss {loss.item():.4f} accuracy {accuracy:.3f}")
