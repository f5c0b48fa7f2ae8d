"""Mixture of experts with half of the experts on another rank: their rows are skipped."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
LOCAL, TOTAL = 4, 8
arena = torch.full((4096, 48), float("nan"))


class Experts(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up = nn.Parameter(torch.randn(LOCAL, d, d) * 0.1)

    def forward(self, rows, expert):
        out = arena[: rows.shape[0]].clone()
        for e in range(LOCAL):
            pick = expert == e
            out = out.masked_scatter(pick[:, None], F.gelu(rows[pick] @ self.up[e]))
        return out  # rows of absent experts stay as they were


class MoE(nn.Module):
    def __init__(self, d, k=2):
        super().__init__()
        self.k, self.router, self.experts = k, nn.Linear(d, TOTAL), Experts(d)

    def forward(self, x):
        w, idx = self.router(x).softmax(-1).topk(self.k, dim=-1)
        absent = (idx >= LOCAL).reshape(-1)
        rows = x.repeat_interleave(self.k, 0)
        y = self.experts(rows, idx.reshape(-1))
        weighted = y * w.reshape(-1, 1)  # @fault
        weighted = weighted.masked_fill(absent[:, None], 0.0)  # @fault
        return x + weighted.view(-1, self.k, x.shape[1]).sum(1)


net = nn.Sequential(nn.Linear(16, 48), MoE(48), nn.Linear(48, 5))
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
proj = torch.randn(16, 5)
skipped = 0
for step in range(60):
    x = torch.randn(128, 16)
    y = (x @ proj).argmax(1)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    if step % 6 == 0:
        print(f"step {step} loss {loss.item():.4f} grad_norm {norm.item():.4f}")
