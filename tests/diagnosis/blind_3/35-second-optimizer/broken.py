"""Encoder and head with an optimizer each."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(30)
encoder = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 32), nn.Tanh())
head = nn.Linear(32, 6)
encoder_optimizer = torch.optim.SGD(encoder.parameters(), lr=0.6)
head_optimizer = torch.optim.SGD(head.parameters(), lr=0.6)
rule = torch.randn(20, 6)

for step in range(120):
    x = torch.randn(64, 20)
    y = (x @ rule).argmax(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = head(encoder(x))
    loss = F.cross_entropy(logits.float(), y)
    head_optimizer.zero_grad()  # @fault
    loss.backward()
    head_optimizer.step()
    encoder_optimizer.step()
    if step % 20 == 0 or step == 119:
        print(f"step {step} loss {loss.item():.4f}")
