"""Learning from annotators' votes: targets are the shares of the votes."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(26)
KINDS, VOTES = 4, 12
rule = torch.randn(14, KINDS)


def batch(n):
    x = torch.randn(n, 14)
    share = (x @ rule * 0.4).softmax(1)
    votes = torch.multinomial(share, VOTES, replacement=True)
    return x, F.one_hot(votes, KINDS).float().mean(1)


def divergence(target, log_q):
    return (torch.xlogy(target, target) - target * log_q).sum(1).mean()


model = nn.Sequential(nn.Linear(14, 48), nn.SiLU(), nn.Linear(48, KINDS))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(80):
    x, target = batch(32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
    loss = divergence(target, logits.float().log_softmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 79:
        print(f"step {step} loss {loss.item():.4f}")
