"""Residual tower with a growing stream: values become huge, each branch reads them through RMS norm."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(8)


class RMS(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.g * x / x.pow(2).mean(-1, keepdim=True).add(1e-6).sqrt()


class Branch(nn.Module):
    def __init__(self, d, gain):
        super().__init__()
        self.norm, self.up, self.down, self.gain = RMS(d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d), gain

    def forward(self, x):
        return x + self.gain * self.down(F.gelu(self.up(self.norm(x))))


class Tower(nn.Module):
    def __init__(self, d=48, depth=4):
        super().__init__()
        self.inp = nn.Linear(12, d)
        self.blocks = nn.ModuleList(Branch(d, 30.0 ** (k + 1)) for k in range(depth))
        self.norm, self.out = RMS(d), nn.Linear(d, 1)

    def forward(self, x):
        h = self.inp(x)
        for b in self.blocks:
            h = b(h)
        self.peak = h.detach().abs().max().item()
        return self.out(self.norm(h))


def friedman(n):
    x = torch.rand(n, 12)
    y = 10 * torch.sin(3.1416 * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, ((y - 14) / 5)[:, None]


def main():
    net = Tower()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, total_steps=400)
    xv, yv = friedman(1000)
    for step in range(1, 401):
        x, y = friedman(96)
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 80 == 0:
            with torch.no_grad():
                r2 = 1 - (F.mse_loss(net(xv), yv) / yv.var()).item()
            print(f"step {step} loss {loss.item():.4f} R2 {r2:.4f} largest stream value {net.peak:.3g}")


if __name__ == "__main__":
    main()
