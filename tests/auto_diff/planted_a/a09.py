"""Focal loss for multi-label detection heads."""

import torch


def focal_terms(
    p: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor, gamma: float
) -> tuple[torch.Tensor, torch.Tensor]:
    hit = positive * (1.0 - p) ** gamma
    miss = negative * p**gamma
    return hit, miss


def focal_loss(
    logits: torch.Tensor, labels: torch.Tensor, gamma: float = 2.0, eps: float = 1e-8
) -> torch.Tensor:
    """logits [n, classes], labels bool [n, classes]; mean over all entries."""
    positive = labels.to(logits.dtype)
    negative = 1.0 - positive
    p = torch.sigmoid(logits)
    log_p = torch.log(p + eps)
    rest = 1.0 - p + eps
    log_rest = torch.log(rest)
    hit, miss = focal_terms(p, positive, negative, gamma)
    loss = -(hit * log_p + miss * log_rest)
    return loss.mean()
