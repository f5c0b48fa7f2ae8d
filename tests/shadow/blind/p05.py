"""BF16 weights with a hand-written AdamW that carries the rounding of each update along."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(21)
WEIGHTS = torch.float64 if os.environ.get("REF") else torch.bfloat16


class CompensatedAdamW(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            low, high = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    wide = torch.promote_types(p.dtype, torch.float32)
                    state["t"] = 0
                    state["m"] = torch.zeros_like(p, dtype=wide)
                    state["v"] = torch.zeros_like(p, dtype=wide)
                    state["carry"] = torch.zeros_like(p)
                state["t"] += 1
                g = p.grad.to(state["m"].dtype)
                state["m"].mul_(low).add_(g, alpha=1 - low)
                state["v"].mul_(high).addcmul_(g, g, value=1 - high)
                m = state["m"] / (1 - low ** state["t"])
                v = state["v"] / (1 - high ** state["t"])
                change = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * p
                carry = state["carry"].add_((-group["lr"] * change).to(p.dtype))
                old = p.clone()
                p.add_(carry)
                carry.add_(old - p)


wave = torch.randn(3, 12)


def batch(generator):
    x = 2 * torch.rand(128, 3, generator=generator) - 1
    return x, torch.sin(x @ wave).mean(dim=1, keepdim=True)


net = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
net = net.to(WEIGHTS)
optimizer = CompensatedAdamW(net.parameters(), lr=4e-3)
stream = torch.Generator().manual_seed(1)
recent = 0.0
for step in range(150):
    x, y = batch(stream)
    loss = (net(x.to(WEIGHTS)).float() - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    recent = loss.item() if step == 0 else 0.9 * recent + 0.1 * loss.item()
    if step % 25 == 0:
        print(f"step {step} loss {loss.item():.5f}")
print(f"smoothed loss at the end {recent:.5f}")
