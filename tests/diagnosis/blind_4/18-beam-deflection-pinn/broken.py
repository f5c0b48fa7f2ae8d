import math
import torch
import torch.nn as nn

torch.manual_seed(17)
STEP = 1e-4  # @fault


class Deflection(nn.Module):
    """Displacement field with the clamped ends built in."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x):
        return x * (1 - x) * self.net(x)


def second_derivative(u, x):
    return (u(x + STEP) - 2 * u(x) + u(x - STEP)) / STEP ** 2


def source(x):
    return -(math.pi ** 2) * torch.sin(math.pi * x) - 2.0 * (2 * math.pi) ** 2 * 0.2 * torch.sin(2 * math.pi * x)


def exact(x):
    return torch.sin(math.pi * x) + 0.4 * torch.sin(2 * math.pi * x)


u = Deflection()
opt = torch.optim.Adam(u.parameters(), lr=3e-3)
for it in range(450):
    x = torch.rand(64, 1)
    residual = second_derivative(u, x) - source(x)
    loss = residual.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 45 == 0:
        print(f"iter {it} residual {loss.item():.4f}")
with torch.no_grad():
    x = torch.linspace(0, 1, 201)[:, None]
    rel = (u(x) - exact(x)).norm() / exact(x).norm()
print(f"relative L2 error {rel.item():.4f}")
