import math
import torch
import torch.nn as nn

torch.manual_seed(2)


def heartbeats(n, length=64):
    t = torch.linspace(0, 1, length)
    rate = torch.rand(n, 1) * 6 + 2
    phase = torch.rand(n, 1) * 2 * math.pi
    sig = torch.sin(2 * math.pi * rate * t + phase) + 0.4 * torch.sin(4 * math.pi * rate * t + 2 * phase)
    return (sig + 0.05 * torch.randn(n, length))[:, None], (rate.squeeze(1) - 5) / 2


class RateNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 12, 7, stride=2, padding=3), nn.ReLU(),
            nn.Conv1d(12, 16, 5, stride=2, padding=2), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(16 * 16, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.head(self.conv(x)).squeeze(-1)


class SmoothedLoss:
    def __init__(self, weight=0.001):
        self.weight = weight
        self.value = torch.tensor(2.0, dtype=torch.float32)

    def update(self, loss):
        self.value.lerp_(loss.detach().to(self.value.dtype), self.weight)
        return self.value.item()


model = RateNet()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=15, threshold=1e-4)
smooth = SmoothedLoss()
for step in range(400):
    x, y = heartbeats(64)
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step(smooth.update(loss))
    if step % 40 == 0:
        print(f"step {step} mse {loss.item():.4f} lr {opt.param_groups[0]['lr']:.2e}")
with torch.no_grad():
    x, y = heartbeats(2000)
    val = nn.functional.mse_loss(model(x), y)
print(f"validation mse {val.item():.4f}")
