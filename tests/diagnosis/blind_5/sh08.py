"""Flow matching on a spiral; samples are drawn from a small FP16 copy of the average."""
import io
import math
import torch
from torch import nn

torch.manual_seed(44)


def spiral(n, gen):
    t = torch.rand(n, 1, generator=gen).sqrt() * 2.5 * math.pi
    p = torch.cat([t * torch.cos(t), t * torch.sin(t)], 1) / 4
    return p + 0.03 * torch.randn(n, 2, generator=gen)


class Velocity(nn.Module):
    def __init__(self, h=128):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 + 6, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 2))

    def forward(self, x, t):
        f = [fn(t * k) for k in (1.0, 3.0, 6.0) for fn in (torch.sin, torch.cos)]
        return self.net(torch.cat([x] + f, 1))


class Average:
    def __init__(self, model, decay=0.98):
        self.decay = decay
        self.w = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.state_dict().items():
            self.w[k].lerp_(v, 1 - self.decay)

    def half_file(self):
        buf = io.BytesIO()
        torch.save({k: v.half() for k, v in self.w.items()}, buf)
        buf.seek(0)
        return buf


@torch.no_grad()
def draw(file, n, gen, steps=40):
    net = Velocity()
    net.load_state_dict({k: v.float() for k, v in torch.load(file).items()})
    x = torch.randn(n, 2, generator=gen)
    for i in range(steps):
        x = x + net(x, torch.full((n, 1), (i + 0.5) / steps)) / steps
    return x


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


gen = torch.Generator().manual_seed(7)
model = Velocity()
avg = Average(model)
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for i in range(600):
    for g in opt.param_groups:
        g["lr"] = 3e-3 * 0.5 * (1 + math.cos(math.pi * i / 600))
    x1, x0 = spiral(256, gen), torch.randn(256, 2, generator=gen)
    t = torch.rand(256, 1, generator=gen)
    loss = (model((1 - t) * x0 + t * x1, t) - (x1 - x0)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    avg.update(model)
    if i % 150 == 149:
        d = energy_distance(draw(avg.half_file(), 800, gen), spiral(800, gen))
        print(f"step {i + 1} loss {loss.item():.4f} energy distance {d:.5f}")
noise = energy_distance(torch.randn(800, 2, generator=gen), spiral(800, gen))
print("energy distance", round(d, 5), "of pure noise", round(noise, 4))
