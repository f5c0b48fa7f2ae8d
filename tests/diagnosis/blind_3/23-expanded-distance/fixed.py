"""Few-shot classification by the distance to class prototypes, BF16 autocast."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(18)
WAYS, SHOTS, QUERIES = 8, 4, 12


def distance(a, b):
    return (a.float()[:, None] - b.float()[None, :]).pow(2).sum(-1)


def episode():
    centre = torch.randn(WAYS, 1, 20) * 0.5
    x = centre + 0.5 * torch.randn(WAYS, SHOTS + QUERIES, 20) * torch.linspace(0.2, 2, 20)
    return x[:, :SHOTS].reshape(-1, 20), x[:, SHOTS:].reshape(-1, 20)


embed = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32))
with torch.no_grad():
    embed[-1].bias.add_(5.0)
optimizer = torch.optim.Adam(embed.parameters(), lr=3e-3)
target = torch.arange(WAYS).repeat_interleave(QUERIES)
for step in range(100):
    support, query = episode()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prototype = embed(support).view(WAYS, SHOTS, -1).mean(1)
        logits = -distance(embed(query), prototype)
    loss = F.cross_entropy(logits.float(), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 99:
        print(f"step {step} loss {loss.item():.4f} accuracy {(logits.argmax(1) == target).float().mean().item():.3f}")
