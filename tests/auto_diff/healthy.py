"""Functions and models that look as risky as those of planted.py and are right in BF16 and FP16."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

CASES: dict[str, tuple[list[str], str, bool]] = {}


def case(inputs: list[str], policy: str = "pure", backward: bool = False):
    def add(function):
        CASES[function.__name__] = (inputs, policy, backward)
        return function

    return add


@case(["float32[8,512]~normal(0,20)"])
def norm_in_fp32(x: Tensor) -> Tensor:
    wide = x.float()
    return (x / wide.square().sum(-1, keepdim=True).sqrt().to(x.dtype)) * 4


@case(["float32[4,64]~normal(0,8)"])
def stable_softmax(x: Tensor) -> Tensor:
    weights = torch.exp(x - x.max(-1, keepdim=True).values)
    return weights / weights.sum(-1, keepdim=True)


@case(["float32[16,256]~offset(3)"])
def variance_of_deviations(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)).square().mean(-1)


@case(["float32[64,32]~normal(0,1)"])
def rope_in_fp32(x: Tensor) -> Tensor:
    positions = torch.arange(64, dtype=torch.float32)
    rates = 1.0 / (10000.0 ** (torch.arange(0, 32, 2, dtype=torch.float32) / 32))
    angles = positions[:, None] * rates
    left, right = x.float().chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([left * cos - right * sin, left * sin + right * cos], -1).to(x.dtype)


@case(["float32[4,4096]~uniform(0,1)"])
def long_mean(values: Tensor) -> Tensor:
    return values.mean(-1)


@case(["float32[8,64]~normal(0,1)", "mask=bool[8,64]~bernoulli(0.7)"])
def mask_of_the_format(x: Tensor, mask: Tensor) -> Tensor:
    return x.masked_fill(~mask, torch.finfo(x.dtype).min).softmax(-1)


@case(["float32[64]~normal(0,1)"])
def normalised(x: Tensor) -> Tensor:
    return x / (x.float().norm() + 1e-8)


@case(["float32[32,64]~uniform(0.1,0.5)"])
def sum_of_logarithms(p: Tensor) -> Tensor:
    return p.log().sum(-1)


@case(["float32[2,200]~ones"])
def short_count(mask: Tensor) -> Tensor:
    return mask.cumsum(-1)


@case(["float32[64,10]~normal(0,4)", "int64[64]<10"], "pure", True)
def cross_entropy(x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(x, y)


@case(["float32[64,16]~normal(0,4)", "float32[64,16]~normal(0,4)"], "cuda-autocast", True)
def contrastive(a: Tensor, b: Tensor) -> Tensor:
    a, b = functional.normalize(a, dim=-1), functional.normalize(b, dim=-1)
    scores = a @ b.T / 0.07
    return functional.cross_entropy(scores, torch.arange(64))


@case(["float32[64]~normal(0,3)"], "pure", True)
def logit_loss(x: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(x, (x > 0).to(x.dtype))


@case(["float32[4,8,32,16]~normal(0,2)"], "cuda-autocast", True)
def attention(x: Tensor) -> Tensor:
    scores = (x / 4) @ x.transpose(-1, -2)
    causal = torch.ones(32, 32, dtype=torch.bool).tril()
    return scores.masked_fill(~causal, -math.inf).softmax(-1) @ x


@case(["float32[4,8,32,16]~normal(0,2)"], "pure", True)
def fused_attention(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x, is_causal=True)


@case(["float32[16,64]~offset(2)"], "pure", True)
def root_mean_square_norm(x: Tensor) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


@case(["float32[32,4]~uniform(0,1)", "float32[32,4]~uniform(0,1)"], "cuda-autocast", True)
def giou(a: Tensor, b: Tensor) -> Tensor:
    a = torch.cat([a[:, :2], a[:, :2] + a[:, 2:] + 0.1], 1)
    b = torch.cat([b[:, :2], b[:, :2] + b[:, 2:] + 0.1], 1)
    low, high = torch.max(a[:, :2], b[:, :2]), torch.min(a[:, 2:], b[:, 2:])
    inter = (high - low).clamp(min=0).prod(1)
    areas = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1)
    union = areas - inter
    hull = (torch.max(a[:, 2:], b[:, 2:]) - torch.min(a[:, :2], b[:, :2])).prod(1)
    return (1 - inter / (union + 1e-7) + (hull - union) / (hull + 1e-7)).mean()


@case(["float32[8,16]~normal(0,1)", "float32[8,16]~normal(0,1)"], "pure", True)
def kl_of_gaussians(mean: Tensor, spread: Tensor) -> Tensor:
    return -0.5 * (1 + spread - mean.square() - spread.exp()).sum(-1).mean()


@case(["float32[8,32]~normal(0,1)"], "pure", True)
def gumbel(x: Tensor) -> Tensor:
    noise = -torch.empty_like(x, dtype=torch.float32).exponential_().log()
    return ((x.float() + noise) / 0.7).softmax(-1).to(x.dtype)


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(24))
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(24))

    def forward(self, x: Tensor) -> Tensor:
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + functional.gelu(layer(norm(x)))
        return x


@case(["float32[16,32]~normal(0,1)"], "pure", True)
def deep_residual(x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return Deep().to(x.dtype)(x)


class Features(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64), nn.GELU()
        )
        self.head = nn.Linear(64, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x))


@case(["int64[64,8]<9000"], "cuda-autocast", True)
def whole_numbers_as_features(x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return Features()(x.float() / 100 * 100).square().mean()


@case(["float32[2,600,32]~normal(0,1)"], "cuda-autocast", True)
def positions_as_shares(x: Tensor) -> Tensor:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(1, 32), nn.GELU(), nn.Linear(32, 32))
    at = torch.arange(x.shape[1], device=x.device).bfloat16()[:, None].float() / x.shape[1]
    return x + layers(at)


@case(["float32[2,4,300,300]~normal(0,1)", "mask=bool[300,300]~bernoulli(0.7)"], "pure", True)
def mask_of_a_large_number(x: Tensor, mask: Tensor) -> Tensor:
    large = torch.finfo(x.dtype).max
    return (x + (~mask).to(x.dtype) * -min(1e9, large)).softmax(-1)


@case(["float32[64,100]~normal(0,5)"], "cuda-autocast", True)
def log_sum_exp(x: Tensor) -> Tensor:
    return torch.logsumexp(x, -1).mean() + x.softmax(-1).square().sum(-1).mean()


@case(["float32[16,8]~normal(0,1)", "float32[24,8]~normal(0,1)"], "cuda-autocast", True)
def distances(a: Tensor, b: Tensor) -> Tensor:
    return torch.cdist(a, b).min(-1).values.mean()


@case(["float32[256,8]~normal(0,1)"], "pure", True)
def router(x: Tensor) -> Tensor:
    share, chosen = x.softmax(-1).topk(2)
    return torch.zeros_like(x).scatter_add(1, chosen, share)
