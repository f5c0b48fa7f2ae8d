import math
import torch
import torch.nn as nn

torch.manual_seed(30)
T = 100


class Schedule:
    def __init__(self):
        beta = torch.linspace(1e-4, 0.08, T, dtype=torch.bfloat16)  # @fault
        self.abar = torch.cumprod(1.0 - beta, dim=0).float()
        self.beta = beta.float()

    def noise(self, x0, t):
        eps = torch.randn_like(x0)
        a = self.abar[t][:, None]
        return a.sqrt() * x0 + (1 - a).sqrt() * eps, eps


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 + 8, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))

    def forward(self, x, t):
        f = t.float()[:, None] / T * math.pi * torch.tensor([0.5, 1.0, 2.0, 4.0])
        return self.net(torch.cat([x, f.sin(), f.cos()], dim=1))


def ring(n):
    ang = torch.rand(n) * 2 * math.pi
    return torch.stack([ang.cos(), ang.sin()], dim=1) * 1.5 + 0.02 * torch.randn(n, 2)


@torch.no_grad()
def generate(model, sch, n):
    x = torch.randn(n, 2)
    for i in range(T - 1, -1, -1):
        a, b = sch.abar[i], sch.beta[i]
        eps = model(x, torch.full((n,), i))
        x = (x - b / (1 - a).sqrt() * eps) / (1 - b).sqrt()
        if i > 0:
            x = x + b.sqrt() * torch.randn_like(x)
    return x


sch, model = Schedule(), Denoiser()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(600):
    x0 = ring(256)
    t = torch.randint(0, T, (256,))
    xt, eps = sch.noise(x0, t)
    loss = (model(xt, t) - eps).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 60 == 0:
        print(f"step {step} noise mse {loss.item():.4f}")
radius = generate(model, sch, 1000).norm(dim=1)
print(f"noise mse {loss.item():.4f} radius error of samples {(radius - 1.5).abs().mean().item():.4f}")
