import torch
from torch import nn
import torch.nn.functional as F

# Half-precision network with FP32 master weights; gradients of many micro-batches are summed before each update.
torch.manual_seed(0)
ACCUM, MICRO, OUT, WEIGHT = 8, 16, 400, 0.02


def make_batch(n, gen):
    """Spectra: a few gaussian peaks; the net sees 24 coarse bins and predicts the fine curve."""
    axis = torch.linspace(0, 1, OUT)
    centre = torch.rand(n, 3, 1, generator=gen)
    height = 0.3 + 0.7 * torch.rand(n, 3, 1, generator=gen)
    fine = (height * torch.exp(-((axis - centre) / 0.08) ** 2)).sum(1)
    coarse = F.adaptive_avg_pool1d(fine[:, None], 24)[:, 0]
    return coarse, fine * 0.1


def build():
    return nn.Sequential(nn.Linear(24, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, OUT))


class MasterTrainer:
    def __init__(self, lr):
        self.master = build()
        self.half = build().half()
        self.push()
        self.opt = torch.optim.Adam(self.master.parameters(), lr=lr)

    @torch.no_grad()
    def push(self):
        for h, m in zip(self.half.parameters(), self.master.parameters()):
            h.copy_(m)

    def update(self, batches):
        for h in self.half.parameters():
            h.grad = None
        total = 0.0
        for x, y in batches:
            loss = WEIGHT * F.mse_loss(self.half(x.half()).float(), y)
            (loss / len(batches)).backward()  # @fault
            total += loss.item() / len(batches)
        for h, m in zip(self.half.parameters(), self.master.parameters()):
            m.grad = h.grad.float()  # @fault
        self.opt.step()
        self.push()
        return total


def r2(net, x, y):
    with torch.no_grad():
        p = net(x.half()).float()
    return (1 - ((p - y) ** 2).sum() / ((y - y.mean(0)) ** 2).sum()).item()


def main():
    gen = torch.Generator().manual_seed(1)
    xv, yv = make_batch(300, gen)
    tr = MasterTrainer(1e-3)
    for step in range(1, 121):
        x, y = make_batch(ACCUM * MICRO, gen)
        loss = tr.update(list(zip(x.split(MICRO), y.split(MICRO))))
        if step % 20 == 0:
            print(f"update {step:3d} loss {loss:.6f} val R2 {r2(tr.half, xv, yv):.4f}")


main()
