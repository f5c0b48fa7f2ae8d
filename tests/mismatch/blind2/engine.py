"""The rollout's side: reads a dictionary of weights, keeps keys, values and states, and samples
token by token."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from policy import counted, left_padded


@dataclass
class Answers:
    tokens: torch.Tensor  # [batch, steps]
    logprobs: torch.Tensor  # [batch, steps]
    experts: torch.Tensor | None  # [batch, prompt + steps - 1, layers, k]: where each token went


class Engine:
    def __init__(self, shape, dtype=torch.float32, seed=0):
        self.s, self.dtype = shape, dtype
        self.random = torch.Generator().manual_seed(seed)
        self.w = {}

    def take(self, weights):
        self.w = {name: self.converted(name, x.detach()) for name, x in weights.items()}

    def converted(self, name, x):
        return x.to(self.dtype, copy=True)

    # parts of the model; `at` is the name of the block

    def norm(self, x, name):
        y = x.float()
        size = (y.pow(2).sum(-1, keepdim=True) / y.shape[-1] + 1e-5).sqrt()
        return (y / size * self.w[name].float()).to(x.dtype)

    def turn(self, x, positions):
        """x: [batch, length, heads, width]"""
        half = x.shape[-1] // 2
        speed = torch.exp(-torch.log(torch.tensor(self.s.base)) * torch.arange(0, half, 2) / half)
        angle = positions[..., None, None] * speed
        z = torch.view_as_complex(x[..., :half].float().unflatten(-1, (-1, 2)).contiguous())
        z = torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)).flatten(-2)
        return torch.cat([z.to(x.dtype), x[..., half:]], -1)

    def stored(self, k, v, layer):
        if layer in self.memory:
            old_k, old_v = self.memory[layer]
            k, v = torch.cat([old_k, k], 1), torch.cat([old_v, v], 1)
        self.memory[layer] = k, v
        return k, v

    def attention(self, x, positions, real, at, layer):
        w, s, (b, t, _) = self.w, self.s, x.shape
        q = self.norm((x @ w[at + "q.weight"].T).view(b, t, s.heads, -1), at + "q_norm.scale")
        k, v = (x @ w[at + "kv.weight"].T).view(b, t, s.kv_heads, 2, -1).unbind(3)
        k = self.norm(k, at + "k_norm.scale")
        if s.places == "rotary":
            q, k = self.turn(q, positions), self.turn(k, positions)
        k, v = self.stored(k, v, layer)
        q = q.view(b, t, s.kv_heads, -1, q.shape[-1])
        score = torch.einsum("btgnw,bsgw->bgnts", q, k).float() / q.shape[-1] ** 0.5
        key, query = torch.arange(k.shape[1]), torch.arange(k.shape[1] - t, k.shape[1])[:, None]
        seen = ((key <= query) & real[:, None, :]) | (key == query)
        p = score.masked_fill(~seen[:, None, None], -1e30).softmax(-1)
        y = torch.einsum("bgnts,bsgw->btgnw", p.to(v.dtype), v).reshape(b, t, -1)
        return y @ w[at + "out.weight"].T

    def recurrence(self, x, positions, real, at, layer):
        w, taps = self.w, self.w[at + "taps"]
        if layer not in self.memory:
            empty = x.new_zeros(len(x), len(taps), x.shape[-1])
            self.memory[layer] = empty[:, 1:], empty[:, 0].float()
        recent, h = self.memory[layer]
        out = []
        for i in range(x.shape[1]):
            u, gate = (x[:, i] @ w[at + "enter.weight"].T).chunk(2, -1)
            recent = torch.cat([recent, u[:, None]], 1)
            back = torch.arange(len(taps) - 1, -1, -1)
            near = (positions[:, i, None] >= back)[..., None] * taps.flip(0)
            u, recent = (recent * near).sum(1), recent[:, 1:]
            a = torch.sigmoid((u @ w[at + "keep.weight"].T + w[at + "keep.bias"]).float())
            h = torch.where(positions[:, i, None] == 0, 0, h)
            h = a * h + (1 - a) * u.float()
            out.append((h.to(x.dtype) * F.silu(gate)) @ w[at + "out.weight"].T)
        self.memory[layer] = recent, h
        return torch.stack(out, 1)

    def mlp(self, x, at):
        up = x @ self.w[at + "up.weight"].T
        half = up.shape[-1] // 2
        return (F.gelu(up[..., :half]) * up[..., half:]) @ self.w[at + "down.weight"].T

    def choice(self, score, at):
        return (score + self.w[at + "bias"].float()).topk(self.s.chosen, -1).indices

    def experts(self, x, at):
        w, flat = self.w, x.reshape(-1, x.shape[-1])
        score = (flat @ w[at + "router.weight"].T).float().sigmoid()
        chosen = self.choice(score, at)
        share = score.gather(-1, chosen)
        share = (share / share.sum(-1, keepdim=True)).to(x.dtype)
        out = self.mlp(flat, at + "common.")
        for slot in range(self.s.chosen):
            for e in chosen[:, slot].unique().tolist():
                here = (chosen[:, slot] == e).nonzero()[:, 0]
                y = F.gelu(flat[here] @ w[at + "up"][e]) @ w[at + "down"][e]
                out.index_add_(0, here, y * share[here, slot, None])
        self.went[-1].append(chosen.view(*x.shape[:2], -1))
        return out.view_as(x)

    def logits(self, hidden):
        y = (hidden @ self.w["head.weight"].T).float()
        return self.s.cap * torch.tanh(y / self.s.cap) if self.s.cap else y

    def forward(self, tokens, positions, real):
        """Some more tokens; the logits behind the last of them."""
        x = self.w["words.weight"][tokens]
        if self.s.places == "learned":
            x = x + self.w["places.weight"][positions]
        self.went.append([])
        for layer, kind in enumerate(self.s.layers):
            at = f"blocks.{layer}."
            mixer = self.attention if kind == "attention" else self.recurrence
            x = x + mixer(self.norm(x, at + "before.scale"), positions, real, at + "mixer.", layer)
            mlp = self.experts if self.s.experts else self.mlp
            x = x + mlp(self.norm(x, at + "between.scale"), at + "mlp.")
        return self.logits(self.norm(x[:, -1], "last.scale"))

    # sampling

    def draw(self, logits, temperature):
        logprobs = (logits / temperature).log_softmax(-1)
        token = torch.multinomial(logprobs.exp(), 1, generator=self.random)
        return token, logprobs.gather(1, token)

    @torch.no_grad()
    def answer(self, prompts, steps, temperature=1.0):
        """prompts: lists of tokens, of any length"""
        self.memory, self.went = {}, []
        now, real = left_padded(prompts)
        positions = counted(real)
        tokens, logprobs = [], []
        for _ in range(steps):
            token, logprob = self.draw(self.forward(now, positions, real), temperature)
            tokens.append(token)
            logprobs.append(logprob)
            now, positions = token, positions[:, -1:] + 1
            real = F.pad(real, (0, 1), value=True)
        went = torch.cat([torch.stack(g, 2) for g in self.went], 1) if self.s.experts else None
        return Answers(torch.cat(tokens, 1), torch.cat(logprobs, 1), went)
