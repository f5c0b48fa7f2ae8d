"""Perplexity of short answers, scored with a small language head."""

import torch
from torch import nn


class AnswerScorer(nn.Module):
    """Scores token ids [batch, length] given hidden states [batch, length, width]."""

    def __init__(self, width: int, vocab: int) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def token_probs(self, hidden: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.norm(hidden))
        probs = torch.softmax(logits, dim=-1)
        return probs.gather(-1, tokens[..., None]).squeeze(-1)

    def forward(self, hidden: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        picked = self.token_probs(hidden, tokens)
        likelihood = picked.prod(dim=-1)
        perplexity = likelihood ** (-1.0 / tokens.shape[-1])
        return perplexity.log().mean()
