"""Supervised contrastive loss over a batch of embeddings."""

import torch
import torch.nn.functional as F


def supervised_contrastive(
    features: torch.Tensor, labels: torch.Tensor, temperature: float = 0.05
) -> torch.Tensor:
    """features [n, d], labels [n]; pulls the rows of one class together."""
    z = F.normalize(features, dim=-1)
    similarity = z @ z.t()
    scaled = similarity / temperature
    weight = torch.exp(scaled)
    others = 1.0 - torch.eye(z.shape[0], device=z.device, dtype=z.dtype)
    weight = weight * others
    positive = (labels[:, None] == labels[None, :]).to(z.dtype) * others
    total = weight.sum(dim=1, keepdim=True)
    log_prob = scaled - torch.log(total)
    count = positive.sum(dim=1).clamp(min=1.0)
    per_row = (positive * log_prob).sum(dim=1) / count
    return -per_row.mean()
