"""Infer leak rates of sealed sources from the lost fraction per inspection interval."""
import math
import torch
from torch import nn

torch.manual_seed(5)


class LossModel(nn.Module):
    """Network for the log rate; the physics layer turns it into a lost fraction."""

    def __init__(self, n_in, interval):
        super().__init__()
        self.interval = interval
        self.net = nn.Sequential(nn.Linear(n_in, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def rate(self, x):
        return torch.exp(-18.0 + 3.0 * self.net(x).squeeze(1))

    def fraction(self, x):
        kt = self.rate(x) * self.interval
        return 1 - torch.exp(-kt)  # @fault

    def forward(self, x):
        return self.fraction(x).clamp_min(1e-12).log()


def inspections(n, seed, interval):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 4, generator=g) * 2 - 1
    log_k = -19.0 + 3.0 * x[:, 0] + 1.5 * torch.sin(2 * x[:, 1]) - 1.2 * x[:, 2] * x[:, 3]
    kt = log_k.double().exp() * interval
    y = torch.log(-torch.expm1(-kt)) + 0.05 * torch.randn(n, generator=g)
    return x, y.to(x.dtype)


def main():
    interval = 3.0
    x, y = inspections(8000, 1, interval)
    xv, yv = inspections(2000, 2, interval)
    model = LossModel(4, interval)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 400, eta_min=1e-4)
    g = torch.Generator().manual_seed(0)
    for it in range(400):
        i = torch.randint(len(x), (256,), generator=g)
        loss = nn.functional.huber_loss(model(x[i]), y[i], delta=1.0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if it % 100 == 0 or it == 399:
            with torch.no_grad():
                mae = (model(xv) - yv).abs().mean().item()
            print(f"it {it:3d}  huber {loss.item():.4f}  mae of log fraction {mae:.4f}  (factor {math.exp(min(mae, 50)):.2f})")
    print("val mae", round(mae, 4))


main()
