"""Edge-list message passing: predict the load of routers from their clients."""
import torch
import torch.nn as nn

torch.manual_seed(21)
g = torch.Generator().manual_seed(4)
HUBS, CLIENTS, FEAT = 60, 9000, 6


def make_graph():
    x = torch.randn(CLIENTS, FEAT, generator=g)
    group = torch.randn(HUBS, FEAT, generator=g) * 0.7
    src, dst = [], []
    for h in range(HUBS):
        deg = int(300 * 1.06 ** h)
        deg = min(deg, CLIENTS - 1)
        score = x @ group[h] + torch.randn(CLIENTS, generator=g) * 1.5
        picked = torch.topk(score, deg).indices
        src.append(picked)
        dst.append(torch.full((deg,), h))
    return x, torch.cat(src), torch.cat(dst)


class GraphCache:
    """Edges and normalisers, made once and shared by all epochs."""

    def __init__(self, src, dst, n, dtype=torch.float16):  # @fault
        self.src, self.dst, self.n = src, dst, n
        deg = torch.zeros(n, dtype=dtype)
        deg.index_add_(0, dst, torch.ones(len(dst), dtype=dtype))
        self.inv_deg = 1.0 / deg.clamp(min=1).to(torch.get_default_dtype())

    def mean(self, msg):
        out = msg.new_zeros(self.n, msg.shape[1])
        out.index_add_(0, self.dst, msg[self.src])
        return out * self.inv_deg[:, None]


class HubNet(nn.Module):
    def __init__(self, cache, hidden=16):
        super().__init__()
        self.cache = cache
        self.msg = nn.Sequential(nn.Linear(FEAT, hidden), nn.Tanh(), nn.Linear(hidden, hidden))
        self.read = nn.Sequential(nn.Linear(hidden, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.read(self.cache.mean(self.msg(x))).squeeze(1)


x, src, dst = make_graph()
cache = GraphCache(src, dst, HUBS)
w = torch.randn(FEAT, generator=g)
with torch.no_grad():
    per_client = torch.sin(x @ w) + 0.5 * x[:, 0] + 1.0
    y = torch.stack([per_client[src[dst == h]].mean() for h in range(HUBS)])
    y = y + 0.01 * torch.randn(HUBS, generator=g)
perm = torch.randperm(HUBS, generator=g)
train, test = perm[:44], perm[44:]

net = HubNet(cache)
opt = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=1e-3)
ema = None
for epoch in range(1, 151):
    net.train()
    pred = net(x)
    loss = (pred[train] - y[train]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema = loss.item() if ema is None else 0.9 * ema + 0.1 * loss.item()
    if epoch % 30 == 0:
        with torch.no_grad():
            mae = (net(x)[test] - y[test]).abs().mean().item()
        print(f"epoch {epoch:3d} | train mse (ema) {ema:.5f} | test mae {mae:.4f}")
print("test mae", round(mae, 5))
