import math
import torch
import torch.nn as nn

torch.manual_seed(12)
START = 1_735_689_600
PERIOD = 900


def meter_log(n):
    """Random reading times (unix seconds) and the load of the cyclic machine."""
    ts = START + torch.randint(0, 40 * 86400, (n,))
    phase = (ts % PERIOD).double() / PERIOD * 2 * math.pi
    load = 2.0 + torch.sin(phase) + 0.5 * torch.cos(3 * phase) + 0.8 * torch.sin(5 * phase)
    return ts, load.float() + 0.02 * torch.randn(n)


class CycleFeatures(nn.Module):
    def forward(self, ts):
        t = ts.float()  # @fault
        ang = (torch.remainder(t, PERIOD) / PERIOD * 2 * math.pi).float()
        k = torch.arange(1, 7)
        a = ang[:, None] * k
        return torch.cat([a.sin(), a.cos()], dim=1)


class LoadModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = CycleFeatures()
        self.net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, ts):
        return self.net(self.features(ts)).squeeze(-1)


model = LoadModel()
opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
ts, load = meter_log(8000)
for step in range(400):
    pick = torch.randint(0, 6000, (128,))
    loss = nn.functional.mse_loss(model(ts[pick]), load[pick])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 0:
        print(f"step {step} train mse {loss.item():.4f}")
with torch.no_grad():
    print(f"test mse {nn.functional.mse_loss(model(ts[6000:]), load[6000:]).item():.4f}")
