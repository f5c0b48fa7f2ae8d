"""Contrastive training with a learned temperature on embeddings that lie in a narrow cone: only a
larger exp(logit_scale) tells them apart, and it grows until the FP16 logits are infinite.
"""

import math

import torch
import torch.nn.functional as F

Numbers = dict[str, float | bool]


def run(clamped: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    cone = 50 * F.normalize(torch.randn(64, generator=generator), dim=0)
    objects = torch.randn(32, 64, generator=generator) / 16
    images = F.normalize(cone + objects, dim=-1)
    texts = F.normalize(cone + objects + torch.randn(32, 64, generator=generator) / 32, dim=-1)
    similarity = images @ texts.T
    logit_scale = torch.nn.Parameter(torch.tensor(math.log(1 / 0.07)))
    optimizer = torch.optim.Adam([logit_scale], lr=0.1)
    broke_at = 0
    first_loss = loss_before = scale_when_it_broke = largest_logit = 0.0
    for step in range(1, 201):
        optimizer.zero_grad()
        logits = (logit_scale.exp() * similarity).half()
        if not bool(torch.isfinite(logits).all()):
            broke_at, scale_when_it_broke = step, logit_scale.exp().item()
            break
        largest_logit = logits.abs().max().item()
        # The loss in FP32, of exact logits: not even that stops the growth.
        loss = F.cross_entropy(logit_scale.exp() * similarity, torch.arange(32))
        first_loss = first_loss or loss.item()
        loss_before = loss.item()
        loss.backward()
        optimizer.step()
        if clamped:
            with torch.no_grad():
                logit_scale.clamp_(0, math.log(100))
    return {
        "initial_scale": 1 / 0.07,
        "least_similarity": similarity.min().item(),
        "first_loss": first_loss,
        "loss_before": loss_before,
        "largest_finite_logit": largest_logit,
        "broke_at": broke_at,
        "scale_when_it_broke": scale_when_it_broke,
        "failed": broke_at > 0,
    }


def broken() -> Numbers:
    return run(clamped=False)


def fixed() -> Numbers:
    return run(clamped=True)
