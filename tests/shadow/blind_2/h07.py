"""Fine tuning with BF16 weights, small steps and compensated additions."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(107)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16


class CompensatedSGD(torch.optim.Optimizer):
    """Momentum SGD that carries the part of each step the weight could not hold."""

    def __init__(self, params, lr, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p, dtype=torch.float32)
                    state["lost"] = torch.zeros_like(p)
                state["momentum"].mul_(group["momentum"]).add_(p.grad.float())
                want = state["lost"] - (group["lr"] * state["momentum"]).to(p.dtype)
                new = p + want
                state["lost"] = want - (new - p)
                p.copy_(new)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        return self.head(self.body(x))


teacher = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).requires_grad_(False)


def batch(n=128):
    x = torch.randn(n, 16).to(DTYPE)
    return x, 3 * teacher(x.float())


model = Net().to(DTYPE)
optimizer = CompensatedSGD(model.parameters(), lr=2e-3)
last = []
for step in range(150):
    x, y = batch()
    loss = (model(x).float() - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    last.append(loss.item())
    if step % 30 == 0:
        print(f"step {step} loss {loss.item():.4f}")
print(f"final loss {sum(last[-10:]) / 10:.4f}")
