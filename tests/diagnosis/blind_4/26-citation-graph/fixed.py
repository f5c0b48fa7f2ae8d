import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(26)
NODES, CLASSES, DEG = 6000, 5, 6


def citation_edges():
    """Edge rows (source, target, weight), mostly inside a topic."""
    topic = torch.randint(0, CLASSES, (NODES,))
    order = torch.argsort(topic)
    start = torch.searchsorted(topic[order], torch.arange(CLASSES + 1))
    src = torch.arange(NODES).repeat_interleave(DEG)
    t = topic[src]
    lo, hi = start[t], start[t + 1]
    inside = order[(lo + (torch.rand(src.numel()) * (hi - lo)).long())]
    dst = torch.where(torch.rand(src.numel()) < 0.85, inside, torch.randint(0, NODES, (src.numel(),)))
    weight = torch.rand(src.numel()) * 0.5 + 0.5
    return topic, torch.stack([src.float(), dst.float(), weight], dim=1)


class GraphConv(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.own, self.nei = nn.Linear(a, b), nn.Linear(a, b)

    def forward(self, x, src, dst, w):
        agg = torch.zeros_like(x).index_add_(0, src, x[dst] * w[:, None])
        norm = torch.zeros(x.size(0)).index_add_(0, src, w).clamp_min(1e-6)
        return self.own(x) + self.nei(agg / norm[:, None])


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = GraphConv(12, 16), GraphConv(16, CLASSES)

    def forward(self, x, src, dst, w):
        return self.c2(F.relu(self.c1(x, src, dst, w)), src, dst, w)


topic, rows = citation_edges()
rows = rows.to(torch.float32)
src, dst, w = rows[:, 0].long().clamp(max=NODES - 1), rows[:, 1].long().clamp(max=NODES - 1), rows[:, 2].float()
x = torch.randn(CLASSES, 12)[topic] * 0.5 + 1.2 * torch.randn(NODES, 12)
train = torch.rand(NODES) < 0.3

net = GNN()
opt = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=1e-4)
for epoch in range(100):
    out = net(x, src, dst, w)
    loss = F.cross_entropy(out[train], topic[train])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 10 == 0:
        print(f"epoch {epoch} loss {loss.item():.4f}")
with torch.no_grad():
    acc = (net(x, src, dst, w).argmax(1) == topic)[~train].float().mean()
print(f"test accuracy {acc.item():.4f}")
