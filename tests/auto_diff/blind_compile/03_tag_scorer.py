import torch
from torch import nn
from torch.nn import functional


class TagScorer(nn.Module):
    def __init__(self, tags: int = 12):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU())
        self.score = nn.Linear(64, tags)
        wanted = [[0, 3, 7], [5], [1, 2], [11, 4, 6, 8], [9], [0, 1, 2, 3, 4], [10, 2], [6]]
        rows = [row + [-1] * (tags - len(row)) for row in wanted]
        self.register_buffer("wanted", torch.tensor(rows))

    def forward(self, x):
        hidden = self.encode(x)
        scores = self.score(hidden)
        ranking = functional.multilabel_margin_loss(scores, self.wanted)
        small = scores.square().mean() * 0.01
        return ranking + small


def build():
    torch.manual_seed(5)
    return TagScorer()
