"""Two-expert feed-forward layer with top-1 routing: tokens are dispatched to slots and combined."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(4)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16

TOKENS, WIDTH, EXPERTS = 1536, 16, 2


class Experts(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, hidden) / WIDTH**0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, hidden, WIDTH) / hidden**0.5)

    def forward(self, x):
        gate, expert = F.softmax(self.router(x).float(), dim=-1).max(dim=-1)
        one_hot = F.one_hot(expert, EXPERTS).to(x.dtype)
        place = torch.cumsum(one_hot, dim=0)  # @fault
        slot = (place * one_hot).sum(dim=1).long() - 1
        dispatched = x.new_zeros(EXPERTS, TOKENS, WIDTH).index_put((expert, slot), x)
        hidden = F.gelu(torch.bmm(dispatched, self.up.to(x.dtype)))
        done = torch.bmm(hidden, self.down.to(x.dtype))
        return done[expert, slot] * gate.to(x.dtype).unsqueeze(1)


teacher = [torch.randn(WIDTH, WIDTH) / 4 for _ in range(EXPERTS)]
split = torch.randn(WIDTH)


def sample():
    x = torch.randn(TOKENS, WIDTH)
    side = (x @ split > 0).float().unsqueeze(1)
    return x, side * (x @ teacher[0]) + (1 - side) * (x @ teacher[1])


layer = Experts()
optimizer = torch.optim.Adam(layer.parameters(), lr=8e-3)
history = []
for step in range(80):
    x, target = sample()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=DTYPE is torch.bfloat16):
        out = layer(x.to(DTYPE))
    loss = F.mse_loss(out.float(), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}")
print(f"mean of the last ten losses {sum(history[-10:]) / 10:.4f}")
