"""Top-1 router of a mixture of experts with its balance loss."""

import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.experts = experts
        self.before = nn.Linear(width, width)
        self.gate = nn.Linear(width, experts, bias=False)

    def load(self, logits: torch.Tensor) -> torch.Tensor:
        """Share of the tokens that each expert receives."""
        choice = logits.argmax(dim=-1)
        counts = torch.zeros(self.experts, device=logits.device, dtype=logits.dtype)
        ones = torch.ones(choice.shape[0], device=logits.device, dtype=counts.dtype)
        counts = counts.index_add(0, choice, ones)
        return counts / choice.shape[0]

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.before(tokens))
        logits = self.gate(hidden)
        probs = torch.softmax(logits, dim=-1)
        importance = probs.mean(dim=0)
        balance = self.experts * (self.load(logits) * importance).sum()
        z_loss = torch.logsumexp(logits, dim=-1).square().mean()
        return balance + 1e-3 * z_loss


def build() -> nn.Module:
    torch.manual_seed(3)
    return Router(32, 4)
