"""Trains a small depth net; every few steps a half-precision copy is scored the way the phone will run it."""
import copy
import io
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(4)


def views(n, side=12):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, side), torch.linspace(-1, 1, side), indexing="ij")
    a, b, c = torch.rand(3, n, 1, 1, 1) * 2 - 1
    depth = 1.5 + 0.5 * (a * xx + b * yy) + 0.4 * torch.exp(-((xx - c) ** 2 + yy ** 2) * 4)
    img = torch.cat([depth.reciprocal() + 0.05 * torch.randn_like(depth), torch.sin(3 * depth)], 1)
    return img, depth


class DepthNet(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(2, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(c, 1, 1), nn.Softplus())

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def phone_score(model, x, d):
    phone = copy.deepcopy(model).eval().half()
    out = phone(x.half()).float()
    buf = io.BytesIO()
    torch.save(phone.state_dict(), buf)
    return (out - d).abs().mean().item(), len(buf.getvalue())


def main():
    model = DepthNet()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 250)
    xv, dv = views(64)
    for step in range(1, 251):
        x, d = views(12)
        loss = F.smooth_l1_loss(model(x), d)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 10 == 0:
            err, size = phone_score(model, xv, dv)
            if step % 50 == 0:
                print(f"step {step} loss {loss.item():.5f} phone error {err:.4f} ({size} bytes)")


if __name__ == "__main__":
    main()
