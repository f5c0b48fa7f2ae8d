"""Attention pooling over the sentences of a document, variable number of sentences."""

import os
import random

import torch
from torch import Tensor, nn

torch.set_num_threads(1)
torch.manual_seed(127)
random.seed(127)
MIXED = not os.environ.get("REF")


def documents(size: int, shortest: int) -> tuple[Tensor, Tensor, Tensor]:
    lengths = torch.tensor([random.randint(shortest, 9) for _ in range(size)])
    keep = torch.arange(9)[None, :] < lengths[:, None]
    sentences = torch.randn(size, 9, 24)
    score = (sentences[..., 0] * keep).amax(dim=1) - 0.8
    return sentences, keep, (score > 0).float()


class Pooling(nn.Module):
    def __init__(self, width: int = 24, heads: int = 4) -> None:
        super().__init__()
        self.key = nn.Linear(width, width)
        self.query = nn.Parameter(torch.randn(heads, width // heads))
        self.value = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        b, n, w = x.shape
        k = self.key(x).view(b, n, self.heads, -1)
        v = self.value(x).view(b, n, self.heads, -1)
        scores = torch.einsum("bnhd,hd->bhn", k, self.query.to(k.dtype))
        scores = scores.masked_fill(~keep[:, None, :], float("-inf"))
        weights = scores.softmax(dim=-1)  # @fault
        return torch.einsum("bhn,bnhd->bhd", weights, v).reshape(b, w)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = Pooling()
        self.head = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return self.head(self.pool(x, keep)).squeeze(1)


def main() -> None:
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(80):
        x, keep, y = documents(64, shortest=1 if step < 37 else 0)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=MIXED):
            logits = model(x, keep)
        loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
