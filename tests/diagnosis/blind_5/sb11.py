"""Prioritised experience sampling for a reward model with rare events."""
import torch
from torch import nn

torch.manual_seed(17)


class SumTree:
    """Binary tree of priorities; node i has the children 2i and 2i + 1."""

    def __init__(self, capacity, dtype=torch.float32):
        self.cap = capacity
        self.depth = capacity.bit_length() - 1
        self.t = torch.zeros(2 * capacity, dtype=dtype)

    def set(self, leaf, priority):
        node = leaf + self.cap
        delta = priority - self.t[node]
        self.t[node] = priority
        for _ in range(self.depth):
            node = node // 2
            self.t.index_add_(0, node, delta)  # @fault

    def draw(self, n, gen):
        total = self.t[1]
        u = (torch.arange(n, dtype=self.t.dtype) + torch.rand(n, generator=gen, dtype=self.t.dtype)) / n * total
        node = torch.ones(n, dtype=torch.int64)
        for _ in range(self.depth):
            left = self.t[2 * node]
            right = u >= left
            u = torch.where(right, u - left, u)
            node = 2 * node + right.long()
        return node - self.cap


class Replay:
    FRESH = 1e6  # never-seen rows come first

    def __init__(self, x, y, gen):
        self.x, self.y, self.gen = x, y, gen
        self.tree = SumTree(len(x))
        self.tree.set(torch.arange(len(x)), torch.full((len(x),), self.FRESH, dtype=self.tree.t.dtype))

    def sample(self, n):
        i = self.tree.draw(n, self.gen)
        return i, self.x[i], self.y[i]

    def update(self, i, err):
        i, first = torch.unique(i, return_inverse=True)
        p = torch.zeros(len(i), dtype=self.tree.t.dtype).scatter_reduce(0, first, err.abs().to(self.tree.t.dtype), "amax")
        self.tree.set(i, p.pow(0.6) + 0.01)


def events(n, gen):
    x = torch.randn(n, 8, generator=gen)
    rare = (x[:, 0] > 1.6).to(x.dtype)
    y = torch.tanh(x[:, 1] + 0.5 * x[:, 2] * x[:, 3]) + rare * (3 + x[:, 4])
    return x, y + 0.05 * torch.randn(n, generator=gen)


gen = torch.Generator().manual_seed(2)
mem = Replay(*events(4096, gen), gen)
xt, yt = events(3000, gen)
net = nn.Sequential(nn.Linear(8, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 1))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(1, 501):
    i, x, y = mem.sample(128)
    out = net(x).squeeze(1)
    loss = nn.functional.smooth_l1_loss(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    mem.update(i, (out - y).detach())
    if step % 100 == 0:
        with torch.no_grad():
            mse = (net(xt).squeeze(1) - yt).pow(2).mean().item()
        print(f"step {step} loss {loss.item():.4f} test mse {mse:.4f}")
print("test mse", round(mse, 5))
