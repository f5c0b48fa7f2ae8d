import torch
import torch.nn as nn

torch.manual_seed(10)


class RunningNormalizer:
    """Running mean and variance of the raw observations."""

    def __init__(self, n):
        dtype = torch.float64
        self.count = 0
        self.total = torch.zeros(n, dtype=dtype)
        self.total_sq = torch.zeros(n, dtype=dtype)

    def update(self, obs):
        obs = obs.to(self.total.dtype)
        self.count += obs.size(0)
        self.total += obs.sum(0)
        self.total_sq += obs.pow(2).sum(0)

    def __call__(self, obs):
        mean = self.total / self.count
        var = (self.total_sq / self.count - mean.pow(2)).clamp_min(1e-2)
        return ((obs - mean) / var.sqrt()).float()


class FlowModel(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


SENSORS = 6
base = torch.linspace(90000.0, 110000.0, SENSORS)
mix = torch.randn(SENSORS)


def observe(n):
    z = torch.randn(n, SENSORS)
    return base + 3.0 * z, torch.tanh(z @ mix) + 0.3 * z[:, 0]


norm = RunningNormalizer(SENSORS)
model = FlowModel(SENSORS)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(500):
    obs, y = observe(64)
    norm.update(obs)
    loss = nn.functional.mse_loss(model(norm(obs)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(f"step {step} mse {loss.item():.4f}")
with torch.no_grad():
    obs, y = observe(4000)
    print(f"held-out mse {nn.functional.mse_loss(model(norm(obs)), y).item():.4f}")
