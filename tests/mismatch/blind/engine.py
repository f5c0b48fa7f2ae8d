"""The rollout engine: its own forward pass over a dictionary of weights, with a KV cache, one token at a time."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass
class Rollout:
    tokens: torch.Tensor  # [batch, new]
    logprobs: torch.Tensor  # [batch, new], of the sampled tokens
    experts: torch.Tensor  # [batch, prompt + new - 1, k x layers of experts], None without experts


class Engine:
    def __init__(self, config, dtype=torch.float32, seed=0):
        self.c, self.dtype = config, dtype
        self.weights = {}
        self.generator = torch.Generator().manual_seed(seed)

    def load(self, state):
        self.weights = {name: value.detach().to(self.dtype, copy=True) for name, value in state.items()}

    # -- the forward pass ---------------------------------------------------------------------

    def norm(self, x, name):
        y = x.float()
        y = y / (y.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return (y * self.weights[name].float()).to(x.dtype)

    def rotate(self, x, positions):
        """x: [batch, length, heads, dim]"""
        dim = x.shape[-1]
        rates = 1.0 / self.c.theta ** (torch.arange(0, dim, 2).float() / dim)
        angles = positions[:, :, None, None].float() * rates
        cos, sin = angles.cos(), angles.sin()
        a, b = x[..., : dim // 2].float(), x[..., dim // 2 :].float()
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)

    def qkv(self, x, layer):
        w, c, (b, t, _) = self.weights, self.c, x.shape
        at = f"blocks.{layer}.attention."
        return (
            (x @ w[at + "q.weight"].T).view(b, t, c.heads, c.head_dim),
            (x @ w[at + "k.weight"].T).view(b, t, c.kv_heads, c.head_dim),
            (x @ w[at + "v.weight"].T).view(b, t, c.kv_heads, c.head_dim),
        )

    def attend(self, q, k, v, seen):
        """q: [batch, new, heads, dim]; k, v: [batch, all, kv heads, dim]; seen: bool [batch, new, all]"""
        b, t, _, d = q.shape
        q = q.view(b, t, self.c.kv_heads, -1, d)
        scores = torch.einsum("btgrd,bsgd->bgrts", q, k).float() * d**-0.5
        scores = scores.masked_fill(~seen[:, None, None], float("-inf"))
        y = torch.einsum("bgrts,bsgd->btgrd", scores.softmax(-1).to(v.dtype), v)
        return y.reshape(b, t, -1)

    def store(self, layer, k, v):
        """Puts the new keys and values into the cache; returns what the queries attend to."""
        if self.cache[layer] is not None:
            k, v = torch.cat([self.cache[layer][0], k], 1), torch.cat([self.cache[layer][1], v], 1)
        self.cache[layer] = (k, v)
        return k, v

    def visible(self, layer, keep, new):
        """bool [batch, new, all]"""
        length = keep.shape[1]
        queries = torch.arange(length - new, length)[:, None]
        keys = torch.arange(length)[None, :]
        return ((keys <= queries) & keep[:, None, :]) | (keys == queries)

    def route(self, x, layer):
        scores = (x @ self.weights[f"blocks.{layer}.mlp.router.weight"].T).float().softmax(-1)
        top, chosen = scores.topk(self.c.top_k, -1)
        return chosen, top / top.sum(-1, keepdim=True)

    def experts(self, x, layer):
        w, at = self.weights, f"blocks.{layer}.mlp."
        chosen, share = self.route(x, layer)
        self.routes[-1].append(chosen)
        flat, out = x.reshape(-1, x.shape[-1]), torch.zeros(x.shape[0] * x.shape[1], x.shape[-1], dtype=x.dtype)
        picks, shares = chosen.reshape(-1, self.c.top_k), share.reshape(-1, self.c.top_k).to(x.dtype)
        for e in range(self.c.experts):
            rows, slot = (picks == e).nonzero(as_tuple=True)
            if len(rows):
                y = flat[rows]
                y = (F.silu(y @ w[at + "gate"][e]) * (y @ w[at + "up"][e])) @ w[at + "down"][e]
                out.index_add_(0, rows, y * shares[rows, slot, None])
        return out.view_as(x)

    def mlp(self, x, layer):
        if layer in self.c.moe_layers:
            return self.experts(x, layer)
        w, at = self.weights, f"blocks.{layer}.mlp."
        return (F.silu(x @ w[at + "gate.weight"].T) * (x @ w[at + "up.weight"].T)) @ w[at + "down.weight"].T

    def logits(self, hidden):
        return (hidden @ self.weights["head.weight"].T).float()

    def step(self, tokens, positions, keep):
        """The new tokens go in, the logits after the last of them come out."""
        x = self.weights["embed.weight"][tokens]
        self.routes.append([])
        for layer in range(self.c.layers):
            y = self.norm(x, f"blocks.{layer}.norm1.weight")
            q, k, v = self.qkv(y, layer)
            q, k = self.rotate(q, positions), self.rotate(k, positions)
            k, v = self.store(layer, k, v)
            y = self.attend(q, k, v, self.visible(layer, keep, tokens.shape[1]))
            x = x + y @ self.weights[f"blocks.{layer}.attention.o.weight"].T
            x = x + self.mlp(self.norm(x, f"blocks.{layer}.norm2.weight"), layer)
        return self.logits(self.norm(x[:, -1], "norm.weight"))

    # -- sampling -----------------------------------------------------------------------------

    def sample(self, logits, temperature):
        logprobs = (logits / temperature).log_softmax(-1)
        token = torch.multinomial(logprobs.exp(), 1, generator=self.generator)
        return token[:, 0], logprobs.gather(-1, token)[:, 0]

    @torch.no_grad()
    def generate(self, prompts, keep, new, temperature=1.0):
        """prompts: [batch, length], padded on the left; keep: False on the padding"""
        self.cache, self.routes = [None] * self.c.layers, []
        positions = (keep.long().cumsum(1) - 1).clamp(min=0)
        tokens, last, logprobs = [], positions[:, -1:], []
        logits = self.step(prompts, positions, keep)
        for i in range(new):
            token, logprob = self.sample(logits, temperature)
            tokens.append(token)
            logprobs.append(logprob)
            if i + 1 < new:
                keep = torch.cat([keep, torch.ones_like(keep[:, :1])], 1)
                logits = self.step(token[:, None], last + 1 + i, keep)
        experts = None
        if self.c.moe_layers:
            experts = torch.cat([torch.cat(r, -1) for r in self.routes], 1)
        return Rollout(torch.stack(tokens, 1), torch.stack(logprobs, 1), experts)
