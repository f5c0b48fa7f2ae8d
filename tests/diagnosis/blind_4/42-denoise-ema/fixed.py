"""Denoising MLP with an averaged copy of the weights that is the one evaluated and shipped."""
import copy
import torch
import torch.nn as nn

torch.manual_seed(1)


class Denoiser(nn.Module):
    def __init__(self, dim=32, hidden=128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim + 1, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, dim)
        )

    def forward(self, x, sigma):
        return self.net(torch.cat([x, sigma.log()], dim=-1))


class Average:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p.detach().to(s.dtype), 1.0 - self.decay)


def batch(n, gen):
    t = torch.linspace(0, 6.28, 32)
    phase = torch.rand(n, 1, generator=gen) * 6.28
    freq = torch.randint(1, 4, (n, 1), generator=gen).float()
    clean = torch.sin(freq * t + phase)
    sigma = torch.rand(n, 1, generator=gen) * 0.8 + 0.1
    return clean, clean + sigma * torch.randn(n, 32, generator=gen), sigma


gen = torch.Generator().manual_seed(2)
model = Denoiser()
ema = Average(model)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
held = batch(1024, torch.Generator().manual_seed(99))


@torch.no_grad()
def evaluate(net):
    clean, noisy, sigma = held
    net = copy.deepcopy(net).float()
    return (net(noisy, sigma) - clean).pow(2).mean().item()


for step in range(400):
    clean, noisy, sigma = batch(256, gen)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pred = model(noisy, sigma)
    loss = (pred.float() - clean).pow(2).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    ema.update(model)
    if step % 50 == 49:
        print(f"step {step + 1} loss {loss.item():.4f} live {evaluate(model):.4f} averaged {evaluate(ema.shadow):.4f}")
