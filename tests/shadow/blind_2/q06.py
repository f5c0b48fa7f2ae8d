"""Sentiment of reviews of varying length, pooled by masked attention."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(6)

DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
VOCAB, MAX_LENGTH, STEPS = 120, 20, 90

polarity = torch.randn(VOCAB)


def reviews(n):
    """Review lengths as they come from the tokenizer."""
    lengths = torch.clamp((torch.randn(n) * 3.0 + 9.5).round().long(), 0, MAX_LENGTH)
    tokens = torch.randint(VOCAB, (n, MAX_LENGTH))
    mask = torch.arange(MAX_LENGTH)[None, :] < lengths[:, None]
    score = (polarity[tokens] * mask).sum(1)
    return tokens, mask, (score > 0).to(DTYPE)


class AttentionPool(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, width)
        self.score = nn.Linear(width, 1)
        self.head = nn.Linear(width, 1)

    def forward(self, tokens, mask):
        x = self.embedding(tokens)
        scores = self.score(x).squeeze(-1)
        scores = scores.masked_fill(~mask, float("-inf"))  # @fault
        weights = torch.softmax(scores, dim=1)  # @fault
        pooled = (weights.unsqueeze(-1) * x).sum(1)
        return self.head(pooled).squeeze(-1)


def main():
    model = AttentionPool().to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(STEPS):
        tokens, mask, label = reviews(32)
        logits = model(tokens, mask)
        loss = F.binary_cross_entropy_with_logits(logits, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
