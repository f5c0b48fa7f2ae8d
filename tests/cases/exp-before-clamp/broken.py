"""Off-policy policy gradient with a k3 KL penalty to a frozen reference; fp32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
STATES, ACTIONS = 32, 24
states = torch.randn(STATES, 16)
reward_table = torch.randn(STATES, ACTIONS)


def approx_kl(log_probs, log_probs_ref, limit=10.0):
    """Schulman's k3, always positive, cut at `limit` so that single tokens do not rule the batch."""
    log_ratio = log_probs_ref - log_probs
    kl = log_ratio.exp() - 1 - log_ratio  # @fault
    return kl.clamp(min=-limit, max=limit)


class Policy(nn.Module):
    """Compares a state with each action, as CLIP does: logits are 160 times a cosine."""

    def __init__(self):
        super().__init__()
        self.state = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32))
        self.action = nn.Parameter(torch.randn(ACTIONS, 32))

    def forward(self, states):
        return 160 * F.normalize(self.state(states), dim=-1) @ F.normalize(self.action, dim=-1).t()


policy, reference = Policy(), Policy().requires_grad_(False)
reference.load_state_dict(policy.state_dict())
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)

for step in range(400):
    with torch.no_grad():
        log_probs_ref = reference(states).log_softmax(-1)
        actions = torch.multinomial(
            (log_probs_ref / 4).softmax(-1), 4, replacement=True
        )  # rollouts, hot
    log_probs = policy(states).log_softmax(-1).gather(1, actions)
    log_probs_ref = log_probs_ref.gather(1, actions)
    advantage = reward_table.gather(1, actions)
    weight = (
        (log_probs - log_probs_ref).exp().clamp(max=1.0).detach()
    )  # truncated importance weight
    policy_loss = -(weight * advantage * log_probs).mean()
    kl = approx_kl(log_probs, log_probs_ref).mean()
    loss = policy_loss + 0.01 * kl
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    if step % 20 == 0 or not norm.isfinite():
        print(
            f"step {step} loss {loss.item():.4f} kl {kl.item():.3f} grad_norm {norm.item():.3f} smallest log prob {log_probs.min().item():.1f}"
        )
    if not loss.isfinite():
        break
