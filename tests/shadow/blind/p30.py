"""Clipped policy optimisation with a rollout buffer and early stop of the epochs on divergence."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(193)
STORE = torch.float32 if os.environ.get("REF") else torch.bfloat16

OBS, ACTIONS, BATCH, EPOCHS = 10, 96, 256, 4
wanted = torch.randn(OBS, ACTIONS) / OBS**0.5


class GaussianPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(OBS, 48), nn.Tanh(), nn.Linear(48, ACTIONS))
        self.log_std = nn.Parameter(torch.full((ACTIONS,), 0.3))

    def log_prob(self, obs, action):
        z = (action - self.mean(obs)) / self.log_std.exp()
        return (-0.5 * z**2 - self.log_std - 0.5 * math.log(2 * math.pi)).sum(dim=1)

    @torch.no_grad()
    def act(self, obs):
        return self.mean(obs) + self.log_std.exp() * torch.randn(len(obs), ACTIONS)


class Rollouts:
    def __init__(self):
        self.obs = torch.zeros(BATCH, OBS)
        self.action = torch.zeros(BATCH, ACTIONS)
        self.log_prob = torch.zeros(BATCH, dtype=STORE)
        self.advantage = torch.zeros(BATCH)

    @torch.no_grad()
    def fill(self, policy):
        self.obs.normal_()
        self.action.copy_(policy.act(self.obs))
        self.log_prob.copy_(policy.log_prob(self.obs, self.action))  # @fault
        reward = -(self.action - self.obs @ wanted).square().mean(dim=1)
        self.advantage.copy_((reward - reward.mean()) / (reward.std() + 1e-6))
        return reward.mean().item()


policy, rollouts = GaussianPolicy(), Rollouts()
optimizer = torch.optim.Adam(policy.parameters(), lr=1.5e-3)
updates = 0
for iteration in range(38):
    reward = rollouts.fill(policy)
    for _ in range(EPOCHS):
        log_ratio = policy.log_prob(rollouts.obs, rollouts.action) - rollouts.log_prob
        ratio = log_ratio.exp()
        with torch.no_grad():
            divergence = (ratio - 1 - log_ratio).mean()
        if divergence > 0.045:
            break
        clipped = ratio.clamp(0.8, 1.2)
        gain = torch.min(ratio * rollouts.advantage, clipped * rollouts.advantage)
        loss = -gain.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
    if iteration % 10 == 0:
        print(f"iteration {iteration} reward {reward:.4f} divergence {divergence:.4f}")
print(f"updates {updates}  reward of the last rollout {reward:.4f}")
