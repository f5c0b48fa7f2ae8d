"""Detecting rare events: focal loss, FP16 autocast, GradScaler."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Detector(nn.Module):
    def __init__(self, d=24, h=96):
        super().__init__()
        self.f1, self.f2, self.f3 = nn.Linear(d, h), nn.Linear(h, h), nn.Linear(h, 2)
        self.n1, self.n2 = nn.LayerNorm(h), nn.LayerNorm(h)

    def forward(self, x):
        x = F.silu(self.n1(self.f1(x)))
        return self.f3(F.silu(self.n2(self.f2(x))))


def focal_loss(logits, target, gamma=0.5):
    ce = F.cross_entropy(logits.float(), target, reduction="none")
    return ((-torch.expm1(-ce)).clamp_min(1e-6) ** gamma * ce).mean()


def batch(n, w):
    """Events stand well apart from the rest; one in five is one."""
    y = (torch.rand(n) < 0.2).long()
    return torch.randn(n, 24) + (2.0 * y[:, None] - 0.7) * w, y


def main():
    torch.manual_seed(0)
    w = torch.randn(24)
    model = Detector()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=200)
    for step in range(2500):
        x, y = batch(64, w)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = focal_loss(model(x), y)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        if step % 200 == 0:
            print(f"step {step} loss {loss.item():.5f} scale {scaler.get_scale():g}")
    x, y = batch(4000, w)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        print("accuracy", (model(x).argmax(-1) == y).float().mean().item())


if __name__ == "__main__":
    main()
