"""Compressor power from logged time stamps: periodic features plus ambient temperature."""
import math
import torch
from torch import nn
from torch.utils.data import Dataset

torch.manual_seed(13)
PERIODS = (300.0, 1800.0, 86400.0)


class PowerLog(Dataset):
    def __init__(self, rows, seed):
        g = torch.Generator().manual_seed(seed)
        start = 1_718_000_000
        self.stamp = start + torch.randint(0, 3 * 86400, (rows,), generator=g)
        s = (self.stamp - start).double()
        self.ambient = (18 + 6 * torch.sin(2 * math.pi * s / 86400) + 0.5 * torch.randn(rows, generator=g)).to(torch.get_default_dtype())
        duty = (torch.sin(2 * math.pi * s / 300) > 0.2).to(self.ambient.dtype)
        slow = torch.cos(2 * math.pi * s / 1800).to(self.ambient.dtype)
        self.power = 2.0 + 3.0 * duty + 0.8 * slow + 0.05 * self.ambient + 0.1 * torch.randn(rows, generator=g)
        self.features = self._features()

    def _features(self):
        origin = 1_718_000_000
        sec = self.stamp.to(torch.float32)  # @fault
        cols = [(self.ambient - 18) / 6]
        for p in PERIODS:
            ang = 2 * math.pi * torch.remainder(sec, p) / p
            cols += [torch.sin(ang), torch.cos(ang)]
        return torch.stack(cols, 1)

    def __len__(self):
        return len(self.stamp)

    def __getitem__(self, i):
        return self.features[i], self.power[i]


class Net(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.inp = nn.Linear(n_in, 64)
        self.blocks = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))
        self.out = nn.Linear(64, 1)

    def forward(self, x):
        h = torch.relu(self.inp(x))
        for b in self.blocks:
            h = h + torch.relu(b(h))
        return self.out(h).squeeze(-1)


def fit(train, test, epochs=8, bs=256):
    net = Net(train.features.shape[1])
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    order = torch.Generator().manual_seed(0)
    steps = epochs * (len(train) // bs)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-3, total_steps=steps)
    for ep in range(epochs):
        perm = torch.randperm(len(train), generator=order)
        tot, n = 0.0, 0
        for k in range(len(train) // bs):
            x, y = train[perm[k * bs:(k + 1) * bs]]
            loss = nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            tot, n = tot + loss.item(), n + 1
        with torch.no_grad():
            mae = (net(test.features) - test.power).abs().mean().item()
        print(f"epoch {ep + 1}: train mse {tot / n:.4f}, test mae {mae:.4f} kW")
    return mae


print("test mae [kW]", round(fit(PowerLog(12000, 1), PowerLog(3000, 2)), 4))
