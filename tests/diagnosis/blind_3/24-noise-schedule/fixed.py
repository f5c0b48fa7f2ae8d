"""Denoising diffusion on points of a ring."""
import torch
import torch.nn as nn

torch.manual_seed(19)
T, DTYPE = 1000, torch.bfloat16
beta = torch.linspace(1e-4, 6e-3, T)
alpha_bar = torch.cumprod(1 - beta, 0)
reference = torch.cumprod(1 - torch.linspace(1e-4, 6e-3, T, dtype=torch.float64), 0).float()


def ring(n):
    angle = torch.rand(n) * 6.2832
    return torch.stack([angle.cos(), angle.sin()], 1)


def noisy(x, t, schedule):
    level = schedule[t].float()[:, None]
    noise = torch.randn_like(x)
    return level.sqrt() * x + (1 - level).sqrt() * noise, noise


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(T // 50, 32)
        self.first, self.second, self.out = nn.Linear(2, 64), nn.Linear(96, 64), nn.Linear(64, 2)

    def forward(self, x, t):
        h = torch.cat([torch.relu(self.first(x)), self.time(t // 50)], 1)
        return self.out(torch.relu(self.second(h)))


model = Denoiser()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
for step in range(120):
    x, t = ring(512), torch.randint(0, T, (512,))
    x_t, noise = noisy(x, t, alpha_bar)
    with torch.autocast("cpu", dtype=DTYPE):
        prediction = model(x_t, t)
    loss = (prediction.float() - noise).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == 119:
        print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    t = torch.randint(0, T, (8000,))
    x_t, noise = noisy(ring(8000), t, reference)
    print(f"eval {(model(x_t, t) - noise).pow(2).mean().item():.4f}, alpha_bar at 300: {alpha_bar[300].item():.4f}, at the end: {alpha_bar[-1].item():.4f}")
