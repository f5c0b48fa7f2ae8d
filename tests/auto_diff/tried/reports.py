"""The functions that eight public reports turn on, as their scripts have them: with a training at
the top level below. Each is to be tried by its line (`# try: NAME`) or by its name.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

LOCAL, TOTAL, WIDTH, HEADS, LENGTH = 4, 8, 48, 4, 16
arena = torch.full((4096, 48), float("nan"))  # what a caching allocator hands out: old bytes


class ListLoss(nn.Module):
    """Of ragged lists: `labels` is a list of tensors, `logits` holds all of their elements."""

    def __init__(self, pad=-1e16, eps=1e-10):
        super().__init__()
        self.pad, self.eps = pad, eps

    def forward(self, logits, labels):
        n, longest = len(labels), max(len(each) for each in labels)
        rows = torch.cat([torch.full((len(each),), i) for i, each in enumerate(labels)])
        cols = torch.cat([torch.arange(len(each)) for each in labels])
        scores = torch.full((n, longest), self.pad)
        scores[rows, cols] = logits  # try: list_loss
        mask = scores > self.pad / 2
        tail = scores.exp().flip(1).cumsum(1).flip(1)
        terms = (tail + self.eps).log() - scores
        return (terms * mask).sum() / mask.sum()


class Experts(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up = nn.Parameter(torch.randn(LOCAL, d, d) * 0.1)

    def forward(self, rows, expert):
        out = arena[: rows.shape[0]].clone()
        for e in range(LOCAL):
            pick = expert == e
            out = out.masked_scatter(pick[:, None], F.gelu(rows[pick] @ self.up[e]))  # try: experts
        return out


class MoE(nn.Module):
    def __init__(self, d, k=2):
        super().__init__()
        self.k, self.router, self.experts = k, nn.Linear(d, TOTAL), Experts(d)

    def forward(self, x):
        w, idx = self.router(x).softmax(-1).topk(self.k, dim=-1)
        absent = (idx >= LOCAL).reshape(-1)
        rows = x.repeat_interleave(self.k, 0)
        y = self.experts(rows, idx.reshape(-1))
        weighted = y * w.reshape(-1, 1)  # try: moe
        weighted = weighted.masked_fill(absent[:, None], 0.0)
        return x + weighted.view(-1, self.k, x.shape[1]).sum(1)


class RowNorm(nn.Module):
    def __init__(self, n, eps=1e-9):
        super().__init__()
        self.gain, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, h):
        centred = h - h.mean(-1, keepdim=True)
        spread = centred.var(-1, keepdim=True, unbiased=False)
        return centred * torch.rsqrt(spread + self.eps) * self.gain.to(h.dtype)  # try: row_norm


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        f = 1.0 / 100 ** (torch.arange(0, WIDTH // HEADS, 2) / (WIDTH // HEADS))
        angle = torch.outer(torch.arange(LENGTH).float(), f).repeat(1, 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def rope(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat((-b, a), -1) * self.sin

    def forward(self, x):
        shape = (len(x), LENGTH, HEADS, WIDTH // HEADS)
        q, k, v = (m(x).view(shape).transpose(1, 2) for m in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.rope(q), self.rope(k), v)  # try: attention
        return x + self.o(y.transpose(1, 2).reshape(len(x), LENGTH, WIDTH))


class Adam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = torch.tensor(0.0)
                    state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                state["step"] += 1
                state["m"].lerp_(p.grad, 1 - beta1)
                state["v"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)  # try: adam
                size = (state["v"] / (1 - beta2 ** state["step"].item())).sqrt()
                p.addcdiv_(state["m"], size.add_(group["eps"]), value=-group["lr"])


def focal_loss(logits, target, gamma=0.5):
    p = logits.softmax(-1).gather(-1, target[:, None]).squeeze(-1)
    return ((1 - p) ** gamma * -p.clamp_min(1e-4).log()).mean()  # try: focal


def sequence_log_probs(model, ids):
    logits = model(F.one_hot(ids, WIDTH).float())
    picked = logits.log_softmax(-1).gather(-1, ids[..., None]).squeeze(-1)
    return picked.sum(-1) / math.sqrt(ids.shape[-1])  # try: log_probs


net = nn.Sequential(nn.Linear(16, WIDTH), MoE(WIDTH), nn.Linear(WIDTH, 5))
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
for _ in range(100_000):  # a training that nobody waits for
    loss = net(torch.randn(128, 16)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
