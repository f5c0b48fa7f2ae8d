"""The trainer's side: a small language model whose parts can be chosen, and the arithmetic of a
policy gradient."""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Shape:
    vocab: int
    width: int = 48
    layers: tuple = ("attention", "attention")  # or "recurrence"
    heads: int = 4
    kv_heads: int = 1
    inner: int = 96
    places: str = "rotary"  # or "learned", "none"
    longest: int = 128  # of learned places
    base: float = 10000.0
    cap: float = 0.0  # logits become cap * tanh(logits / cap)
    tied: bool = False
    experts: int = 0
    chosen: int = 2

    @property
    def head_width(self):
        return self.width // self.heads


class Norm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x.float(), self.scale.shape, self.scale, self.eps).to(x.dtype)


def turned(x, positions, shape):
    """x: [batch, heads, length, width]. Neighbouring pairs are turned, in the first half of the
    width only."""
    half = x.shape[-1] // 2
    speed = shape.base ** (-torch.arange(0, half, 2).float() / half)
    angle = positions.float()[:, None, :, None] * speed
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    even, odd = x[..., 0:half:2], x[..., 1:half:2]
    pairs = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1)
    return torch.cat([pairs.flatten(-2), x[..., half:]], -1)


class Attention(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.q = nn.Linear(s.width, s.heads * s.head_width, bias=False)
        self.kv = nn.Linear(s.width, 2 * s.kv_heads * s.head_width, bias=False)
        self.out = nn.Linear(s.heads * s.head_width, s.width, bias=False)
        self.q_norm, self.k_norm = Norm(s.head_width), Norm(s.head_width)

    def forward(self, x, positions, seen):
        s, (b, t, _) = self.s, x.shape
        q = self.q(x).view(b, t, s.heads, -1).transpose(1, 2)
        k, v = self.kv(x).view(b, t, s.kv_heads, 2, -1).unbind(3)
        q, k, v = self.q_norm(q), self.k_norm(k).transpose(1, 2), v.transpose(1, 2)
        if s.places == "rotary":
            q, k = turned(q, positions, s), turned(k, positions, s)
        k, v = (y.repeat_interleave(s.heads // s.kv_heads, 1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v.to(q.dtype), attn_mask=seen[:, None])
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


class Recurrence(nn.Module):
    """A short convolution, then a gated average over the past: h = a h + (1 - a) u. All h at
    once, by doubling."""

    TAPS = 4

    def __init__(self, s):
        super().__init__()
        self.enter = nn.Linear(s.width, 2 * s.width, bias=False)
        self.taps = nn.Parameter(torch.randn(self.TAPS, s.width) * 0.5)
        self.keep = nn.Linear(s.width, s.width)
        self.out = nn.Linear(s.width, s.width, bias=False)
        nn.init.uniform_(self.keep.bias, 0.0, 4.0)

    def forward(self, x, positions, begins):
        """begins: bool [batch, length], where the state is put to zero before the token"""
        u, gate = self.enter(x).chunk(2, -1)
        mixed = u * self.taps[0]
        for back in range(1, self.TAPS):
            before = F.pad(u, (0, 0, back, 0))[:, : u.shape[1]]
            mixed = mixed + before * self.taps[back] * (positions >= back)[..., None]
        a = torch.sigmoid(self.keep(mixed))
        h = (1 - a) * mixed
        a = a * ~begins[..., None]
        step = 1
        while step < x.shape[1]:
            h = h + a * F.pad(h, (0, 0, step, 0))[:, : h.shape[1]]
            a = a * F.pad(a, (0, 0, step, 0))[:, : a.shape[1]]
            step *= 2
        return self.out(h * F.silu(gate))


class Mlp(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.up = nn.Linear(s.width, 2 * s.inner, bias=False)
        self.down = nn.Linear(s.inner, s.width, bias=False)

    def forward(self, x):
        gate, up = self.up(x).chunk(2, -1)
        return self.down(F.gelu(gate) * up)


class Experts(nn.Module):
    """One expert for all tokens and some of many others. A bias per expert, moved towards an
    even load, helps to choose them and does not weigh them."""

    def __init__(self, s):
        super().__init__()
        self.s = s
        self.common = Mlp(s)
        self.router = nn.Linear(s.width, s.experts, bias=False)
        self.up = nn.Parameter(torch.randn(s.experts, s.width, s.inner) * s.width**-0.5)
        self.down = nn.Parameter(torch.randn(s.experts, s.inner, s.width) * s.inner**-0.5)
        self.register_buffer("bias", torch.zeros(s.experts))
        self.chosen = self.given = None

    def forward(self, x):
        score = self.router(x).sigmoid()
        best = (score + self.bias).topk(self.s.chosen, -1).indices
        self.chosen = best if self.given is None else self.given
        share = score.gather(-1, self.chosen)
        share = torch.zeros_like(score).scatter(
            -1, self.chosen, share / share.sum(-1, keepdim=True)
        )
        inner = F.gelu(torch.einsum("btw,ewi->btei", x, self.up))
        return self.common(x) + torch.einsum("btei,eiw,bte->btw", inner, self.down, share)

    def even_out(self, speed):
        load = torch.bincount(self.chosen.flatten(), minlength=self.s.experts).float()
        self.bias += speed * torch.sign(load.mean() - load)


class Block(nn.Module):
    def __init__(self, s, kind):
        super().__init__()
        self.kind = kind
        self.before, self.between = Norm(s.width), Norm(s.width)
        self.mixer = Attention(s) if kind == "attention" else Recurrence(s)
        self.mlp = Experts(s) if s.experts else Mlp(s)

    def forward(self, x, positions, seen, begins):
        how = seen if self.kind == "attention" else begins
        x = x + self.mixer(self.before(x), positions, how)
        return x + self.mlp(self.between(x))


class Policy(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.words = nn.Embedding(s.vocab, s.width)
        nn.init.normal_(self.words.weight, std=0.3 if s.tied else 0.7)
        if s.places == "learned":
            self.places = nn.Embedding(s.longest, s.width)
            nn.init.normal_(self.places.weight, std=0.2)
        self.blocks = nn.ModuleList(Block(s, kind) for kind in s.layers)
        self.last = Norm(s.width)
        self.head = nn.Linear(s.width, s.vocab, bias=False)
        if s.tied:
            self.head.weight = self.words.weight

    def hidden(self, tokens, positions, seen, begins=None):
        x = self.words(tokens)
        if self.s.places == "learned":
            x = x + self.places(positions)
        begins = positions == 0 if begins is None else begins
        for block in self.blocks:
            x = block(x, positions, seen, begins)
        return self.last(x)

    def logits(self, hidden):
        y = self.head(hidden)
        return self.s.cap * torch.tanh(y / self.s.cap) if self.s.cap else y

    def forward(self, tokens, positions, seen, begins=None):
        return self.logits(self.hidden(tokens, positions, seen, begins))


def past(real):
    """What each query sees: bool [batch, query, key]. Padding (real is False) sees itself alone."""
    t = real.shape[1]
    return (torch.ones(t, t).tril().bool() & real[:, None, :]) | torch.eye(t).bool()


def counted(real):
    return (real.long().cumsum(1) - 1).clamp(min=0)


def left_padded(rows):
    most = max(len(r) for r in rows)
    real = torch.tensor([[0] * (most - len(r)) + [1] * len(r) for r in rows]).bool()
    return torch.tensor([[0] * (most - len(r)) + r for r in rows]), real


def joined(prompts, answers, counts):
    """Prompts (padded on the left) and answers side by side: tokens, which of them are real,
    which count, and the engine's log-probs at the places of their tokens."""
    tokens, real = left_padded(prompts)
    at = tokens.shape[1]
    whole, real = torch.cat([tokens, answers.tokens], 1), torch.cat([real, counts], 1)
    return whole, real, F.pad(counts, (at, 0)), F.pad(answers.logprobs, (at, 0))


def later(x):
    """Moves what was computed at a token to the next one, which it predicted."""
    return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)


def of_tokens(logits, tokens, temperature=1.0):
    """Log-probs [batch, length] of the tokens, each at its own place; 0 for the first, which
    nothing predicted."""
    scaled = logits[:, :-1].float() / temperature
    own = scaled.gather(-1, tokens[:, 1:, None])[..., 0] - scaled.logsumexp(-1)
    return F.pad(own, (1, 0))


def up_to(tokens, end):
    """bool: the first end token and all before it"""
    is_end = (tokens == end).long()
    return is_end.cumsum(1) - is_end == 0


def imitate(policy, optimizer, task, steps, batch=32, after=None):
    """A warm start by examples."""
    for _ in range(steps):
        pairs = task.pairs(batch)
        tokens, real = left_padded([p + a for p, a in pairs])
        reach = torch.tensor([len(a) for _, a in pairs])
        asked = torch.arange(tokens.shape[1]) >= tokens.shape[1] - reach[:, None]
        logprobs = of_tokens(policy(tokens, counted(real), past(real)), tokens)
        loss = -logprobs[asked].mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        if after:
            after()
    print(f"warm start: loss {loss.item():.3f}")


def against_the_others(rewards, group):
    """Each reward less the mean of the others in its group"""
    r = rewards.view(-1, group)
    return ((r - r.mean(1, keepdim=True)) * group / (group - 1)).view(-1)


def slower(optimizer, lr):
    for group in optimizer.param_groups:
        group["lr"] = lr


def learn(policy, optimizer, loss, clip=1.0):
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), clip)
    optimizer.step()
