"""Relative rotation between two frames, regressed with the angle between rotations as the loss."""

import math
import os

import torch

torch.set_num_threads(1)
torch.manual_seed(8)
REAL = torch.float64 if os.environ.get("REF") else torch.float32


def to_matrix(q):
    q = q / q.norm(dim=-1, keepdim=True)
    w, x, y, z = q.unbind(-1)
    rows = [
        torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
        torch.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
        torch.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
    ]
    return torch.stack(rows, -2)


class Odometry(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(9, 32, bias=False)
        self.last = torch.nn.Linear(32, 3, bias=False)

    def forward(self, flow):
        vector = self.last(torch.tanh(self.first(flow)))
        return to_matrix(torch.cat([torch.ones_like(vector[:, :1]), vector], dim=1))


def angle(prediction, truth):
    relative = prediction.transpose(1, 2) @ truth
    trace = relative.diagonal(dim1=1, dim2=2).sum(-1)
    return torch.acos(((trace - 1) / 2).clamp(-1.0, 1.0))  # @fault


mixing = torch.randn(3, 9, dtype=torch.float64)


def clip(step, size=32):
    vector = 0.4 * torch.randn(size, 3, dtype=torch.float64)
    if step % 40 == 23:
        vector[: size // 8] = 0.0
    truth = to_matrix(torch.cat([torch.ones(size, 1, dtype=torch.float64), vector], dim=1))
    return (vector @ mixing).to(REAL), truth.to(REAL)


model = Odometry().to(REAL)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(60):
    flow, truth = clip(step)
    loss = angle(model(flow), truth).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 6 == 0:
        print(f"step {step} mean angle {loss.item() * 180 / math.pi:.3f} degrees")
finite = all(bool(p.isfinite().all()) for p in model.parameters())
print(f"weights finite at the end: {finite}")
