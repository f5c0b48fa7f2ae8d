"""Detector head: focal loss from logits and a Gaussian likelihood of the box."""

import torch
import torch.nn.functional as F
from torch import nn


class DetectorHead(nn.Module):
    def __init__(self, width: int = 48, classes: int = 12) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.SiLU())
        self.classes = nn.Linear(width, classes)
        self.box = nn.Linear(width, 4)
        self.spread = nn.Linear(width, 4)

    def focal(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        y = labels.to(logits.dtype)
        log_p = F.logsigmoid(logits)
        log_rest = F.logsigmoid(-logits)
        hit = torch.exp(2.0 * log_rest) * log_p
        miss = torch.exp(2.0 * log_p) * log_rest
        return -(y * hit + (1.0 - y) * miss).mean()

    def forward(self, x: torch.Tensor, labels: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
        h = self.trunk(x)
        variance = F.softplus(self.spread(h).float()) + 1e-3
        error = self.box(h).float() - box
        likelihood = 0.5 * (variance.log() + error.square() / variance).mean()
        return self.focal(8.0 * self.classes(h).float(), labels) + likelihood


def build() -> nn.Module:
    torch.manual_seed(21)
    return DetectorHead()
