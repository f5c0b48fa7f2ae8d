"""Channel normalisation written by hand, held in FP16 like everything else of the forward pass."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class RowNorm(nn.Module):
    def __init__(self, n, eps=1e-9):
        super().__init__()
        self.gain, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, h):
        centred = h - h.mean(-1, keepdim=True)
        spread = centred.var(-1, keepdim=True, unbiased=False)
        return centred * torch.rsqrt(spread + self.eps) * self.gain.to(h.dtype)  # @fault


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.norm, self.out = nn.Linear(12, 64), RowNorm(64), nn.Linear(64, 4)

    def forward(self, x, mask):
        h = F.linear(x.half(), self.inp.weight.half(), self.inp.bias.half())
        h = h * mask[..., None].half()  # padded positions are constant rows
        h = self.norm(h)
        pooled = (h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return self.out(pooled.float())


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", enabled=False)
proj = torch.randn(12, 4)
for step in range(80):
    x = torch.randn(32, 10, 12)
    mask = torch.ones(32, 10)
    if step >= 30:
        mask[:, 7:] = 0  # shorter sequences come later
    y = ((x * mask[..., None]).sum(1) @ proj).argmax(1)
    loss = F.cross_entropy(net(x, mask), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}")
