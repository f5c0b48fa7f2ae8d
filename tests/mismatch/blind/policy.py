"""A small decoder (RoPE, grouped queries, RMSNorm, SwiGLU, optional experts) and what a GRPO trainer needs of it."""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int
    width: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    inner: int = 128
    theta: float = 10000.0
    experts: int = 0
    top_k: int = 2
    moe_layers: tuple = ()

    @property
    def head_dim(self):
        return self.width // self.heads


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rope(x, positions, theta):
    """x: [batch, heads, length, dim]; positions: [batch, length]"""
    dim = x.shape[-1]
    rates = theta ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    angles = positions[:, None, :, None].float() * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q = nn.Linear(c.width, c.heads * c.head_dim, bias=False)
        self.k = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.v = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.o = nn.Linear(c.heads * c.head_dim, c.width, bias=False)

    def forward(self, x, positions, mask):
        c, (b, t, _) = self.c, x.shape
        q = self.q(x).view(b, t, c.heads, c.head_dim).transpose(1, 2)
        k = self.k(x).view(b, t, c.kv_heads, c.head_dim).transpose(1, 2)
        v = self.v(x).view(b, t, c.kv_heads, c.head_dim).transpose(1, 2)
        q, k = rope(q, positions, c.theta), rope(k, positions, c.theta)
        k = k.repeat_interleave(c.heads // c.kv_heads, 1)
        v = v.repeat_interleave(c.heads // c.kv_heads, 1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])
        return self.o(y.transpose(1, 2).reshape(b, t, -1))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate = nn.Linear(c.width, c.inner, bias=False)
        self.up = nn.Linear(c.width, c.inner, bias=False)
        self.down = nn.Linear(c.inner, c.width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class MoE(nn.Module):
    """Experts with a softmax router; `replay` (the experts somebody else chose) takes the place of the router's own choice."""

    def __init__(self, c):
        super().__init__()
        self.top_k = c.top_k
        self.router = nn.Linear(c.width, c.experts, bias=False)
        self.gate = nn.Parameter(torch.randn(c.experts, c.width, c.inner) / c.width**0.5)
        self.up = nn.Parameter(torch.randn(c.experts, c.width, c.inner) / c.width**0.5)
        self.down = nn.Parameter(torch.randn(c.experts, c.inner, c.width) / c.inner**0.5)
        self.chosen = None
        self.replay = None

    def forward(self, x):
        scores = self.router(x).softmax(-1)
        chosen = scores.topk(self.top_k, -1).indices if self.replay is None else self.replay
        weights = scores.gather(-1, chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        self.chosen = chosen.detach()
        share = torch.zeros_like(scores).scatter(-1, chosen, weights)
        inner = F.silu(torch.einsum("btw,ewi->btei", x, self.gate)) * torch.einsum("btw,ewi->btei", x, self.up)
        return torch.einsum("btei,eiw,bte->btw", inner, self.down, share)


class Block(nn.Module):
    def __init__(self, c, index):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(c.width), RMSNorm(c.width)
        self.attention = Attention(c)
        self.mlp = MoE(c) if index in c.moe_layers else MLP(c)

    def forward(self, x, positions, mask):
        x = x + self.attention(self.norm1(x), positions, mask)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embed = nn.Embedding(c.vocab, c.width)
        self.blocks = nn.ModuleList(Block(c, i) for i in range(c.layers))
        self.norm = RMSNorm(c.width)
        self.head = nn.Linear(c.width, c.vocab, bias=False)
        nn.init.normal_(self.embed.weight, std=0.5)

    def hidden(self, tokens, positions, mask):
        """mask: bool [batch, length, length], True where a query sees a key"""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, positions, mask)
        return self.norm(x)

    def forward(self, tokens, positions, mask):
        return self.head(self.hidden(tokens, positions, mask))


def causal(keep):
    """keep: bool [batch, length], False on padding. Every query sees at least itself."""
    length = keep.shape[1]
    lower = torch.ones(length, length, dtype=torch.bool).tril()
    return (lower & keep[:, None, :]) | torch.eye(length, dtype=torch.bool)


def positions_of(keep):
    return (keep.long().cumsum(1) - 1).clamp(min=0)


def pad_left(rows, pad=0):
    longest = max(map(len, rows))
    tokens = torch.tensor([[pad] * (longest - len(r)) + r for r in rows])
    keep = torch.tensor([[False] * (longest - len(r)) + [True] * len(r) for r in rows])
    return tokens, keep


def shift(x):
    """What was computed at t - 1 belongs to the token at t; nothing predicts the first one."""
    return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)


def token_logprobs(logits, tokens, temperature=1.0):
    """[batch, length]: log-probability of each token at its own place (0 at the first)"""
    logprobs = (logits[:, :-1].float() / temperature).log_softmax(-1)
    picked = logprobs.gather(-1, tokens[:, 1:, None])[..., 0]
    return torch.cat([torch.zeros_like(picked[:, :1]), picked], 1)


def warm_up(policy, optimizer, task, steps, batch=32):
    """Cold start by examples, as before every reinforcement."""
    for step in range(steps):
        pairs = task.examples(batch)
        tokens, keep = pad_left([p + a for p, a in pairs])
        answer = torch.zeros_like(keep)
        for i, (_, a) in enumerate(pairs):
            answer[i, -len(a):] = True
        logprobs = token_logprobs(policy(tokens, positions_of(keep), causal(keep)), tokens)
        loss = -(logprobs * answer).sum() / answer.sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
    print(f"warm-up: loss {loss.item():.3f}")


def until_end(answers, end):
    """bool [batch, length]: True up to and with the first end token"""
    ended = (answers == end).long().cumsum(1)
    return (ended - (answers == end).long()) == 0


def group_advantages(rewards, group):
    r = rewards.view(-1, group)
    return ((r - r.mean(1, keepdim=True)) / (r.std(1, keepdim=True) + 1e-4)).view(-1)


def clipped_loss(logprobs, old, advantages, mask, clip=0.2):
    ratio = (logprobs - old).exp()
    gain = torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)
    return -(gain * mask).sum() / mask.sum()
