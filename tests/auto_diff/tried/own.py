"""Functions of the kinds that trainings have, each to be tried by its line (`# try: NAME`)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, beta1=0.9, beta2=0.99):
        super().__init__(params, {"lr": lr, "beta1": beta1, "beta2": beta2})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = (m * group["beta1"] + p.grad * (1 - group["beta1"])).sign()
                m.lerp_(p.grad, 1 - group["beta2"])  # try: lion
                p.sub_(update * group["lr"])


class PlainMomentum:
    """No subclass of torch's."""

    def __init__(self, params, lr=0.1, momentum=0.9):
        self.params = list(params)
        self.lr, self.momentum = lr, momentum
        self.buffers = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self):
        for p, buffer in zip(self.params, self.buffers, strict=True):
            buffer.mul_(self.momentum).add_(p.grad)
            p.add_(buffer, alpha=-self.lr)  # try: momentum


class Average:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            self.shadow[name].mul_(self.decay).add_(p, alpha=1 - self.decay)  # try: average
        return self.shadow


def scatter_mean(values, index, size: int):
    total = values.new_zeros(size, values.shape[-1]).index_add_(0, index, values)
    count = torch.bincount(index, minlength=size).clamp(min=1)
    return total / count[:, None]  # try: scatter_mean


def merge(text, image, mask):
    return text.masked_scatter(mask.unsqueeze(-1), image.to(text.dtype)) * 2  # try: merge


def fill_rows(table, rows, values):
    out = table.clone()
    out[rows] = values.exp()  # try: fill_rows
    return out


def last_of(states, lengths):
    rows = torch.arange(states.shape[0], device=states.device)
    return states[rows, lengths - 1].square().mean()  # try: last_of


def ctc(log_probs, targets, input_lengths, target_lengths):
    loss = F.ctc_loss(log_probs, targets, input_lengths, target_lengths, reduction="none")
    return (loss / target_lengths).mean()  # try: ctc


def advantages(rewards, values, dones, gamma: float = 0.99, lam: float = 0.95):
    last, out = 0.0, []
    for t in reversed(range(len(rewards) - 1)):
        delta = rewards[t] + gamma * values[t + 1] * (1 - dones[t]) - values[t]
        last = delta + gamma * lam * (1 - dones[t]) * last  # try: advantages
        out.insert(0, last)
    return torch.stack(out)


def group_norm(x, groups: int, eps: float = 1e-5):
    n, c, h, w = x.shape
    y = x.reshape(n, groups, c // groups * h * w)
    variance, mean = torch.var_mean(y, -1, keepdim=True)
    return ((y - mean) * torch.rsqrt(variance + eps)).view(n, c, h, w)  # try: group_norm


def resize_positions(table, size: tuple[int, int]):
    side = math.isqrt(table.shape[1])
    grid = table.reshape(1, side, side, -1).permute(0, 3, 1, 2)
    return F.interpolate(grid, size=size, mode="bilinear").flatten(2)  # try: resize


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden_states):
        inner = F.gelu(self.up(self.norm(hidden_states)))
        return hidden_states + self.down(inner) * 0.5  # try: block


def step_loss(batch):
    logits, labels = batch["logits"], batch["labels"]
    weight = batch["weight"]
    losses = F.cross_entropy(logits, labels, reduction="none")
    return (losses * weight).sum() / weight.sum()  # try: step_loss


def spectral(wave, target, n_fft: int = 64):
    window = torch.hann_window(n_fft)
    a = torch.stft(wave, n_fft, window=window, return_complex=True).abs()
    b = torch.stft(target, n_fft, window=window, return_complex=True).abs()
    return (a.clamp(min=1e-7).log() - b.clamp(min=1e-7).log()).abs().mean()  # try: spectral


def total_norm(tensors: list[torch.Tensor]):
    squares = [each.square().sum() for each in tensors]
    return torch.stack(squares).sum().sqrt()  # try: total_norm


def weighted_bce(probabilities, target, weight):
    losses = F.binary_cross_entropy(probabilities, target, reduction="none")
    return (losses * weight).mean()  # try: weighted_bce


def dispatch(x, expert_index, n_experts: int, capacity: int = 4):
    chosen = F.one_hot(expert_index, n_experts)
    place = (chosen.cumsum(0) * chosen).sum(-1) - 1
    kept = place < capacity
    out = x.new_zeros(n_experts, capacity, x.shape[-1])
    out[expert_index[kept], place[kept]] = x[kept] * 0.5  # try: dispatch
    return out


def extract(table, t, shape):
    picked = table.gather(-1, t)
    return picked.reshape(t.shape[0], *((1,) * (len(shape) - 1))).sqrt()  # try: extract


class RunningMoments(nn.Module):
    def __init__(self, shape: tuple[int, ...], clip: float = 5.0):
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("var", torch.ones(shape))
        self.register_buffer("count", torch.tensor(1e-4))
        self.clip = clip

    def forward(self, x):
        n = x.shape[0]
        delta = x.mean(0) - self.mean
        self.mean = self.mean + delta * n / (self.count + n)  # try: moments
        self.count = self.count + n
        return ((x - self.mean) / (self.var + 1e-8).sqrt()).clamp(-self.clip, self.clip)


def contrastive(image, text, logit_scale):
    image, text = F.normalize(image, dim=-1), F.normalize(text, dim=-1)
    logits = logit_scale.exp() * image @ text.t()
    labels = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2  # try: clip
