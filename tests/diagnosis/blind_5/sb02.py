# Short-term forecast of a weather station: pressure [Pa], temperature [K], humidity [%]
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)
WIN = 24


def station(n, gen):
    t = torch.arange(n, dtype=torch.float64)
    noise = torch.randn(n, 3, generator=gen, dtype=torch.float64)
    slow = torch.zeros(n, 3, dtype=torch.float64)
    for i in range(1, n):
        slow[i] = 0.97 * slow[i - 1] + 0.25 * noise[i]
    p = 101325 + 18 * torch.sin(t / 7.0) + 6 * slow[:, 0]
    k = 288 + 4 * torch.sin(t / 24 * 6.2832) + slow[:, 1]
    h = 60 + 10 * torch.cos(t / 24 * 6.2832) + 2 * slow[:, 2]
    return torch.stack([p, k, h], 1).to(torch.float32)


class Standardizer(nn.Module):
    """Moments gathered in one streaming pass, kept as buffers of the model."""

    def __init__(self, c):
        super().__init__()
        self.register_buffer("n", torch.zeros((), dtype=torch.int64))
        self.register_buffer("s1", torch.zeros(c))  # @fault
        self.register_buffer("s2", torch.zeros(c))  # @fault

    def observe(self, x):
        x = x.to(self.s1.dtype)
        self.n += x.shape[0]
        self.s1 += x.sum(0)
        self.s2 += (x * x).sum(0)

    def moments(self):
        mean = self.s1 / self.n
        var = (self.s2 / self.n - mean * mean).clamp(min=1e-4)
        return mean.float(), var.sqrt().float()

    def forward(self, x):
        mean, std = self.moments()
        return (x - mean) / std


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Standardizer(3)
        self.gru = nn.GRU(3, 32, batch_first=True)
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        h, _ = self.gru(self.norm(x))
        mean, std = self.norm.moments()
        return mean[0] + std[0] * self.head(h[:, -1]).squeeze(1)


def windows(series):
    w = series.unfold(0, WIN + 1, 1).transpose(1, 2)
    return w[:, :WIN].contiguous(), w[:, WIN, 0].contiguous()


gen = torch.Generator().manual_seed(0)
data = station(9000, gen)
xtr, ytr = windows(data[:8000])
xte, yte = windows(data[8000:])

model = Forecaster()
for chunk in data[:8000].split(250):
    model.norm.observe(chunk)

opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-4)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 8e-3, total_steps=300)
for it in range(300):
    idx = torch.randint(len(xtr), (64,), generator=gen)
    loss = F.smooth_l1_loss(model(xtr[idx]), ytr[idx], beta=5.0)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    opt.step()
    sched.step()
    if it % 60 == 0:
        print(f"[{it}] loss {loss.item():.4f}")

model.eval()
with torch.no_grad():
    rmse = (model(xte) - yte).pow(2).mean().sqrt().item()
print(f"test RMSE [Pa] {rmse:.3f}")
