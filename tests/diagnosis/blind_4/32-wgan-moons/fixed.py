import torch
import torch.nn as nn

torch.manual_seed(32)


def mlp(a, b):
    return nn.Sequential(nn.Linear(a, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, b))


def moons(n):
    t = torch.rand(n) * 3.1416
    up = torch.rand(n) < 0.5
    x = torch.where(up, t.cos(), 1 - t.cos())
    y = torch.where(up, t.sin(), 0.5 - t.sin())
    return torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2) + torch.tensor([2.0, -1.0])


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(4, 2)

    def forward(self, n):
        return self.net(torch.randn(n, 4))


gen, critic = Generator(), mlp(2, 1)
opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.5, 0.9))
opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)


def gradient_penalty(real, fake):
    mix = torch.rand(real.size(0), 1)
    point = (mix * real + (1 - mix) * fake).requires_grad_(True)
    score = critic(point)
    grad, = torch.autograd.grad(scaler.scale(score.sum()), point, create_graph=True)
    grad = grad.float() / scaler.get_scale()
    return (grad.norm(dim=1) - 1).pow(2).mean()


for step in range(300):
    for _ in range(2):
        real, fake = moons(96), gen(96).detach()
        c_loss = critic(fake).mean() - critic(real).mean() + 5.0 * gradient_penalty(real, fake)
        opt_c.zero_grad()
        scaler.scale(c_loss).backward()
        scaler.step(opt_c)
        scaler.update()
    g_loss = -critic(gen(96)).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    if step % 30 == 0:
        print(f"step {step} critic {c_loss.item():.4f} generator {g_loss.item():.4f}")
with torch.no_grad():
    a, b = moons(800), gen(800)
    energy = 2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()
print(f"energy distance {energy.item():.4f}")
