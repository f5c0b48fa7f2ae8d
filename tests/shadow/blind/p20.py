"""Sparse autoencoder with top-k features and gates per feature, next to a gated recurrent cell."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(137)
MIXED = not os.environ.get("REF")

INPUTS, FEATURES, ACTIVE = 24, 96, 8


class SparseCoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(INPUTS, FEATURES)
        self.decode = nn.Linear(FEATURES, INPUTS)
        self.log_alpha = nn.Parameter(4.0 * torch.randn(FEATURES) + 2.0)

    def gates(self):
        if self.training:
            u = torch.rand(FEATURES).clamp(1e-6, 1 - 1e-6)
            s = torch.sigmoid((u.log() - (1 - u).log() + self.log_alpha) / 0.66)
        else:
            s = torch.sigmoid(self.log_alpha)
        return (1.2 * s - 0.1).clamp(0.0, 1.0)

    def forward(self, x):
        code = torch.relu(self.encode(x))
        top, where = code.topk(ACTIVE, dim=1)
        code = torch.zeros_like(code).scatter(1, where, top)
        return self.decode(code * self.gates().to(code.dtype))


class Accumulate(nn.Module):
    """Sums its inputs over time: the forget gate has to be nearly open all the time."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 12)
        self.head = nn.Linear(12, 1)
        with torch.no_grad():
            self.cell.bias_hh[12:24] = 8.0

    def forward(self, series):
        h = c = series.new_zeros(series.shape[1], 12)
        for x in series:
            h, c = self.cell(x, (h, c))
        return self.head(h)


atoms = nn.functional.normalize(torch.randn(40, INPUTS), dim=1)


def signals(size):
    pick = torch.rand(size, 40).topk(4, dim=1).indices
    return (atoms[pick] * (0.5 + torch.rand(size, 4, 1))).sum(dim=1)


coder, summer = SparseCoder(), Accumulate()
optimizer = torch.optim.Adam([*coder.parameters(), *summer.parameters()], lr=6e-3)
tail = []
for step in range(110):
    x, series = signals(128), 0.3 * torch.randn(14, 48, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=MIXED):
        rebuilt, summed = coder(x), summer(series)
    rebuild = nn.functional.mse_loss(rebuilt.float(), x)
    recall = nn.functional.mse_loss(summed.float().squeeze(1), series[..., 0].sum(dim=0))
    loss = 10 * rebuild + recall
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    tail.append(loss.item())
    if step % 20 == 0:
        print(f"step {step} rebuild {rebuild.item():.4f} recall {recall.item():.4f}")
print(f"mean of the last 20 losses {sum(tail[-20:]) / 20:.4f}")
