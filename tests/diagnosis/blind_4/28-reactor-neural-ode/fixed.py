import torch
import torch.nn as nn

torch.manual_seed(28)
DT, N_STEPS = 0.004, 60
STATE_DTYPE = torch.float32


def true_rate(y):
    a, b = y[:, 0:1] - 5.0, y[:, 1:2] - 5.0
    return torch.cat([-0.8 * a + 1.1 * b, -1.1 * a - 0.3 * b], dim=1)


class Rate(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 2))

    def forward(self, y):
        return self.net(y.float() - 5.0)


def integrate(f, y0, dtype):
    y = y0.to(dtype)
    for _ in range(N_STEPS):
        y = y + (DT * f(y)).to(dtype)
    return y.float()


def experiments(n):
    y0 = 5.0 + torch.randn(n, 2)
    return y0, integrate(true_rate, y0, torch.float64)


rate = Rate()
opt = torch.optim.Adam(rate.parameters(), lr=1e-2)
for it in range(150):
    y0, y1 = experiments(48)
    loss = (integrate(rate, y0, STATE_DTYPE) - y1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 15 == 0:
        print(f"iter {it} endpoint mse {loss.item():.5f}")
with torch.no_grad():
    y0, y1 = experiments(500)
    err = (integrate(rate, y0, STATE_DTYPE) - y1).pow(2).mean()
    rate_err = (rate(y0) - true_rate(y0)).pow(2).mean() / true_rate(y0).pow(2).mean()
print(f"endpoint mse {err.item():.6f} relative rate error {rate_err.item():.4f}")
