"""A small policy, and an engine that samples from it: what tests of log_mismatch train.

The engine computes what the trainer computes by the same code; `Engine` says in what one thing it
differs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

WORDS = 96
WIDTH = 64
HEADS = 4
PROMPT = 8
ANSWER = 32


@dataclass
class Engine:
    """How logits come about. The defaults are the trainer's."""

    dtype: torch.dtype = torch.float32  # of everything
    head: torch.dtype = torch.float32  # of the output head alone
    cache: torch.dtype = torch.float32  # of keys and values
    theta: float = 10000.0  # of the rotary positions
    answer_offset: int = 0  # added to the positions of what was sampled, on the query's side
    window: int = 0  # tokens that attention sees; 0: all
    temperature: float = 1.0
    top_p: float = 1.0
    softcap: float = 0.0
    router_noise: float = 0.0
    sees_other_documents: bool = False


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, positions, allowed, engine):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        key_positions = positions
        if engine.answer_offset:
            positions = positions + engine.answer_offset * (positions >= PROMPT)
        q = rotated(q, positions, engine.theta)
        k = rotated(k, key_positions, engine.theta).to(engine.cache).to(x.dtype)
        v = v.to(engine.cache).to(x.dtype)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~allowed.unsqueeze(1), float("-inf"))
        mixed = scores.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


def rotated(x, positions, theta):
    half = x.shape[-1] // 2
    inverse = theta ** (-torch.arange(half, dtype=torch.float32) / half)
    angle = positions.unsqueeze(1).unsqueeze(-1).float() * inverse
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Experts(nn.Module):
    """Each token goes to one of four."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
            for _ in range(4)
        )

    def forward(self, x, engine):
        scores = self.router(x)
        if engine.router_noise:
            noise = torch.randn(scores.shape, generator=torch.Generator().manual_seed(5))
            scores = scores + engine.router_noise * noise
        chosen = scores.argmax(-1)
        self.chosen = chosen
        every = torch.stack([expert(x) for expert in self.experts], -2)
        return every.gather(-2, chosen[..., None, None].expand(*chosen.shape, 1, WIDTH)).squeeze(-2)


class Policy(nn.Module):
    def __init__(self, layers: int = 2, experts: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.attention = nn.ModuleList(Attention() for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 * layers + 1))
        self.mlp = nn.ModuleList(
            Experts()
            if experts
            else nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
            for _ in range(layers)
        )
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        with torch.no_grad():
            self.head.weight.mul_(6)  # as sure of some tokens as a trained policy is

    def hidden(self, tokens, positions, documents, engine):
        x = self.embedding(tokens)
        at = torch.arange(tokens.shape[1])
        allowed = (at[None, :] <= at[:, None]).unsqueeze(0)
        if engine.window:
            allowed = allowed & (at[:, None] - at[None, :] < engine.window).unsqueeze(0)
        if not engine.sees_other_documents:
            allowed = allowed & (documents.unsqueeze(1) == documents.unsqueeze(2))
        allowed = allowed.expand(tokens.shape[0], -1, -1)
        for index, (attention, mlp) in enumerate(zip(self.attention, self.mlp, strict=True)):
            x = x + attention(self.norms[2 * index](x), positions, allowed, engine)
            normed = self.norms[2 * index + 1](x)
            x = x + (mlp(normed, engine) if isinstance(mlp, Experts) else mlp(normed))
        return self.norms[-1](x)

    def logits(self, hidden, engine):
        weight = self.head.weight
        logits = F.linear(hidden.to(engine.head), weight.to(engine.head)).float()
        if engine.softcap:
            logits = engine.softcap * torch.tanh(logits / engine.softcap)
        return logits / engine.temperature

    def routes(self):
        return torch.stack([mlp.chosen for mlp in self.mlp], -1).unsqueeze(-1)


def logprobs(policy, tokens, positions, documents, engine, hidden=False):
    """Of each token at its own place; that of a row's first is 0."""
    states = policy.hidden(tokens, positions, documents, engine)
    logits = policy.logits(states, engine)[:, :-1]
    if engine.top_p < 1:
        logits = truncated(logits, engine.top_p)
    chosen = logits.log_softmax(-1).gather(-1, tokens[:, 1:].unsqueeze(-1)).squeeze(-1)
    chosen = F.pad(chosen, (1, 0))
    return (chosen, states) if hidden else chosen


def truncated(logits, top_p):
    values, order = logits.sort(-1, descending=True)
    mass = values.softmax(-1).cumsum(-1)
    dropped = (mass - values.softmax(-1)) >= top_p
    return logits.masked_fill(torch.zeros_like(dropped).scatter(-1, order, dropped), float("-inf"))


@torch.no_grad()
def sampled(policy, engine, prompts, generator):
    """Prompts [rows, PROMPT] with ANSWER tokens behind them, one document a row."""
    tokens = prompts
    for _ in range(ANSWER):
        positions, documents = places(tokens)
        states = policy.hidden(tokens, positions, documents, engine)
        logits = policy.logits(states, engine)[:, -1]
        if engine.top_p < 1:
            logits = truncated(logits, engine.top_p)
        next_ = torch.multinomial(logits.softmax(-1), 1, generator=generator)
        tokens = torch.cat([tokens, next_], 1)
    return tokens


def places(tokens):
    positions = torch.arange(tokens.shape[1]).expand(tokens.shape)
    return positions, torch.zeros_like(positions)
