import torch
import torch.nn as nn

torch.manual_seed(31)
POINTS, REG = 48, 0.02


class CloudGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 3))

    def forward(self, n):
        return self.net(torch.randn(n, 3))


def target_cloud(n):
    centre = torch.tensor([[1.5, 0.0, 0.5], [-1.0, 1.2, 0.0], [0.0, -1.4, -0.8]])
    return centre[torch.randint(0, 3, (n,))] + 0.15 * torch.randn(n, 3)


def sinkhorn_loss(a, b, iters=12):
    cost = (a[:, None] - b[None]).pow(2).sum(-1)
    scaled = cost / cost.detach().max()
    kernel = torch.exp(-scaled.half() / REG)  # @fault
    v = torch.ones(b.size(0), dtype=kernel.dtype)
    for _ in range(iters):
        u = 1.0 / (kernel @ v)
        v = 1.0 / (kernel.T @ u)
    plan = (u[:, None] * kernel * v[None]).float()
    return (plan.detach() * cost).sum() / a.size(0)


gen = CloudGenerator()
opt = torch.optim.Adam(gen.parameters(), lr=5e-3)
for step in range(200):
    loss = sinkhorn_loss(gen(POINTS), target_cloud(POINTS))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"step {step} transport cost {loss.item():.4f}")
with torch.no_grad():
    a, b = gen(500), target_cloud(500)
    chamfer = torch.cdist(a, b).min(1).values.mean() + torch.cdist(b, a).min(1).values.mean()
print(f"chamfer distance {chamfer.item():.4f}")
