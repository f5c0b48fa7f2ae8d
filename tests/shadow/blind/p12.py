"""Linear layers whose operands are stored in eight-bit floats with a scale per tensor."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(61)
EIGHT_BIT = not os.environ.get("REF")


def store(t, kind):
    if not EIGHT_BIT:
        return t
    top = torch.finfo(kind).max
    scale = t.detach().abs().amax().clamp_min(1e-30) / top
    return (t / scale).clamp(-top, top).to(kind).to(t.dtype) * scale


class EightBitMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        x, weight = store(x, torch.float8_e4m3fn), store(weight, torch.float8_e4m3fn)
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad = store(grad, torch.float8_e5m2)
        return grad @ weight, grad.t() @ x


class EightBitLinear(nn.Linear):
    def forward(self, x):
        return EightBitMatmul.apply(x, self.weight) + self.bias


rotation = torch.linalg.qr(torch.randn(24, 24))[0]


def batch(generator):
    x = torch.randn(128, 24, generator=generator)
    return x, ((x @ rotation)[:, :4].abs().sum(dim=1) > 3.2).long()


net = nn.Sequential(
    EightBitLinear(24, 64), nn.ReLU(), EightBitLinear(64, 64), nn.ReLU(), nn.Linear(64, 2)
)
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
stream = torch.Generator().manual_seed(2)
tail = []
for step in range(140):
    x, y = batch(stream)
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    tail.append(loss.item())
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")
print(f"mean of the last 20 losses {sum(tail[-20:]) / 20:.4f}")
