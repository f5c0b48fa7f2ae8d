"""Discounted advantages over a long rollout, normalised, and the policy loss."""

import torch


def advantages(
    rewards: torch.Tensor, values: torch.Tensor, gamma: float, lam: float
) -> torch.Tensor:
    """rewards [t, n], values [t + 1, n]; the sum runs backwards in float32 or wider."""
    kind = torch.promote_types(rewards.dtype, torch.float32)
    running = torch.zeros(rewards.shape[1], dtype=kind, device=rewards.device)
    steps = []
    for t in reversed(range(rewards.shape[0])):
        delta = rewards[t].to(kind) + gamma * values[t + 1].to(kind) - values[t].to(kind)
        running = delta + gamma * lam * running
        steps.append(running)
    return torch.stack(steps[::-1])


def policy_loss(
    log_prob: torch.Tensor, old_log_prob: torch.Tensor, rewards: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    adv = advantages(rewards, values, gamma=0.99, lam=0.95)
    centred = adv - adv.mean()
    adv = centred / (centred.square().mean().sqrt() + 1e-6)
    ratio = torch.exp((log_prob - old_log_prob).clamp(-4.0, 4.0))
    clipped = ratio.clamp(0.8, 1.2)
    gain = torch.minimum(ratio * adv, clipped * adv)
    returns_fit = (adv.abs() + 1.0).log().mean()
    return returns_fit - gain.clamp(max=0.0).mean()
