"""Graph attention on molecules of different size: padded atoms are masked with -inf."""
import math
import torch
from torch import nn

torch.manual_seed(27)
MAXN, KINDS = 10, 4


def molecules(n, gen):
    size = torch.randint(3, MAXN + 1, (n,), generator=gen)
    kind = torch.randint(KINDS, (n, MAXN), generator=gen)
    adj = torch.rand(n, MAXN, MAXN, generator=gen) < 0.25
    adj = adj | adj.transpose(1, 2) | torch.eye(MAXN, dtype=torch.bool)
    real = torch.arange(MAXN) < size[:, None]
    adj = adj & real[:, None, :] & real[:, :, None]
    adj = adj | torch.eye(MAXN, dtype=torch.bool)
    value = torch.tensor([0.3, -0.5, 1.0, 0.1])[kind]
    nb = (adj.float() @ value.unsqueeze(-1)).squeeze(-1) / adj.sum(-1)
    y = (torch.tanh(2 * nb) * value * real).sum(1) + 0.1 * size
    return kind, adj, real, y


class GraphAttention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.norm = nn.LayerNorm(d)

    def forward(self, h, adj):
        q, k, v = self.qkv(h).chunk(3, -1)
        score = q @ k.transpose(1, 2) / math.sqrt(h.shape[-1])
        score = score.masked_fill(~adj, float("-inf"))
        return self.norm(h + self.out(score.softmax(-1) @ v))


class Net(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(KINDS, d)
        self.layers = nn.ModuleList(GraphAttention(d) for _ in range(2))
        self.read = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, kind, adj, real):
        h = self.emb(kind)
        for l in self.layers:
            h = l(h, adj)
        return (self.read(h).squeeze(-1) * real).sum(1)


gen = torch.Generator().manual_seed(6)
test = molecules(1000, gen)
net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-3, total_steps=300)
for i in range(300):
    kind, adj, real, y = molecules(96, gen)
    loss = nn.functional.mse_loss(net(kind, adj, real), y)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    sched.step()
    if i % 60 == 0 or i == 299:
        with torch.no_grad():
            r = net(*test[:3]) - test[3]
        r2 = 1 - (r.pow(2).mean() / test[3].var()).item()
        print(f"step {i} loss {loss.item():.4f} test R2 {r2:.4f}")
print("test R2", round(r2, 4))
