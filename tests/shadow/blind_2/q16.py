"""Small regression network whose activations pass through FP8 storage."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(16)
STORE = torch.float32 if os.environ.get("REF") else torch.float8_e4m3fn


def through_fp8(x):
    return x.to(STORE).to(torch.float32)  # @fault


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.up(through_fp8(self.norm(x))))
        return self.down(through_fp8(h))


class Net(nn.Module):
    def __init__(self, d_in=12, dim=48, depth=2):
        super().__init__()
        self.embed = nn.Linear(d_in, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = through_fp8(x) + block(x)
        return self.head(x)


def batch(n=256):
    x = torch.randn(n, 12)
    y = torch.tanh(x[:, :1] * x[:, 1:2]) + torch.sin(2 * x[:, 2:3]) + 0.3 * x[:, 3:4] ** 2
    return x, y


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
last = []
for step in range(150):
    x, y = batch()
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    last.append(loss.item())
    if step % 30 == 0:
        zeros = (model.blocks[0].up.weight.grad == 0).float().mean().item()
        print(f"step {step} loss {loss.item():.4f} zero share of a weight gradient {zeros:.2f}")
print(f"final loss {sum(last[-10:]) / 10:.4f}")
