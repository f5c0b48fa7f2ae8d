"""Attention in blocks of keys with a running maximum and running sums."""

import torch


def blockwise_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block: int = 64
) -> torch.Tensor:
    """q, k, v [heads, time, dim]; the sums are kept wide, the answer is not."""
    kind = torch.promote_types(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5
    top = torch.full(q.shape[:2], float("-inf"), dtype=kind, device=q.device)
    total = torch.zeros(q.shape[:2], dtype=kind, device=q.device)
    out = torch.zeros(q.shape, dtype=kind, device=q.device)
    for start in range(0, k.shape[1], block):
        keys = k[:, start : start + block]
        scores = torch.matmul(q.to(kind), keys.transpose(1, 2).to(kind)) * scale
        new_top = torch.maximum(top, scores.amax(dim=-1))
        fade = torch.exp(top - new_top)
        weight = torch.exp(scores - new_top[..., None])
        total = total * fade + weight.sum(dim=-1)
        mixed = torch.matmul(weight, v[:, start : start + block].to(kind))
        out = out * fade[..., None] + mixed
        top = new_top
    return (out / total[..., None]).to(q.dtype)
