"""Quantisation-aware training: 4-bit weights per channel, 8-bit activations with an observer."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(157)
QUANTISE = not os.environ.get("REF")


class RoundThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, low, high):
        q = x / scale
        ctx.save_for_backward((q >= low) & (q <= high))
        return q.round().clamp(low, high) * scale

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None, None, None


class Observer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("top", torch.zeros(()))

    def forward(self, x):
        if self.training:
            now = x.detach().abs().max()
            self.top = torch.where(self.top == 0, now, 0.9 * self.top + 0.1 * now)
        if not QUANTISE:
            return x
        return torch.fake_quantize_per_tensor_affine(x, float(self.top / 127), 0, -128, 127)


class QuantLinear(nn.Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.observer = Observer()

    def forward(self, x):
        weight = self.weight
        if QUANTISE:
            scale = weight.detach().abs().amax(dim=1, keepdim=True) / 7
            weight = RoundThrough.apply(weight, scale, -8, 7)
        return nn.functional.linear(self.observer(x), weight, self.bias)


teacher = nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 4))
for p in teacher.parameters():
    p.requires_grad_(False).mul_(2.0)
student = nn.Sequential(
    QuantLinear(12, 96), nn.ReLU(), QuantLinear(96, 96), nn.ReLU(), QuantLinear(96, 4)
)
optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 150)
tail = []
for step in range(150):
    x = torch.randn(192, 12)
    loss = nn.functional.cross_entropy(student(x), teacher(x).argmax(dim=1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    tail.append(loss.item())
    if step % 25 == 0:
        print(f"step {step:3d} loss {loss.item():.4f}")
print(f"mean of the last 20 losses {sum(tail[-20:]) / 20:.4f}")
