"""Quantisation-aware training of a soft sensor: FP8 weights with a scale per output row."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(22)
TOP = torch.finfo(torch.float8_e4m3fn).max


class RoundFP8(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, scale):
        z = w / scale
        ctx.save_for_backward(z.abs() <= TOP)
        return z.clamp(-TOP, TOP).to(torch.float8_e4m3fn).float() * scale

    @staticmethod
    def backward(ctx, g):
        inside, = ctx.saved_tensors
        return g * inside, None


class QLinear(nn.Linear):
    """Clips the largest 1 % of each row, which gives the rest a finer grid."""

    def qweight(self):
        with torch.no_grad():
            top = torch.quantile(self.weight.abs(), 0.99, dim=1, keepdim=True)
            scale = top.clamp_min(1e-12) / TOP
        return RoundFP8.apply(self.weight, scale)

    def forward(self, x):
        return F.linear(x, self.qweight(), self.bias)


def process(n, gen):
    x = torch.randn(n, 10, generator=gen)
    y = torch.tanh(x[:, 0] - x[:, 1]) + 0.5 * x[:, 2] * torch.sigmoid(2 * x[:, 3]) + 0.2 * x[:, 4] ** 2
    return x, (y + 0.05 * torch.randn(n, generator=gen)).unsqueeze(1)


def main():
    gen = torch.Generator().manual_seed(5)
    xt, yt = process(2000, gen)
    model = nn.Sequential(QLinear(10, 96), nn.SiLU(), QLinear(96, 96), nn.SiLU(), nn.Linear(96, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 400, eta_min=1e-9)
    for i in range(400):
        x, y = process(128, gen)
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        sched.step()
        if i % 80 == 0 or i == 399:
            with torch.no_grad():
                err = F.mse_loss(model(xt), yt).sqrt().item()
                w = model[2].weight
                clipped = (w.abs() > torch.quantile(w.abs(), 0.99, dim=1, keepdim=True)).float().mean().item()
            print(f"{i} loss {loss.item():.4f} rmse {err:.4f} clipped {clipped:.3%}")
    print("test rmse", round(err, 4), "std of target", round(yt.std().item(), 3))


if __name__ == "__main__":
    main()
