import torch
from torch import nn
from torch.nn import functional


def turn(x, position, base: float = 500.0):
    half = x.shape[-1] // 2
    rate = base ** (-torch.arange(half, dtype=torch.float32) / half)
    angle = position.unsqueeze(-1) * rate.to(x.dtype)
    left, right = x[..., :half], x[..., half:]
    cos, sin = torch.cos(angle), torch.sin(angle)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)


class Scorer(nn.Module):
    """Scores of queries and keys that stand at given places of a long text."""

    def __init__(self, width: int = 16):
        super().__init__()
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(width, width, bias=False)

    def forward(self, x, position):
        q = turn(functional.normalize(self.to_q(x), dim=-1), position)
        k = turn(functional.normalize(self.to_k(x), dim=-1), position)
        return q, torch.matmul(q, k.transpose(-2, -1))


def build():
    torch.manual_seed(15)
    return Scorer().to(torch.bfloat16).requires_grad_(False)
