"""Policy gradient on a steady-reward task; rewards, values and returns are stored in BF16."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(5)
HALF = torch.float64 if os.environ.get("REF") else torch.bfloat16
GAMMA, HORIZON, ENVS, ACTIONS = 0.995, 32, 64, 4


class Policy(nn.Module):
    def __init__(self, observed=8):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observed, 32), nn.Tanh(), nn.Linear(32, ACTIONS))

    def forward(self, obs):
        return torch.distributions.Categorical(logits=self.body(obs))


def discounted_returns(rewards, bootstrap):
    """rewards [T, N] -> returns [T, N], continued by the value of the last state."""
    returns = torch.empty_like(rewards)
    running = bootstrap
    for t in reversed(range(rewards.shape[0])):
        running = rewards[t] + GAMMA * running  # @fault
        returns[t] = running
    return returns


def main():
    generator = torch.Generator().manual_seed(3)
    preference = torch.randn(8, ACTIONS, generator=generator)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    steady_value = 1.0 / (1.0 - GAMMA)
    for step in range(60):
        obs = torch.randn(HORIZON, ENVS, 8, generator=generator)
        best = (obs @ preference).argmax(-1)
        pi = policy(obs)
        action = pi.sample()
        reward = 1.0 + 0.25 * (action == best).float()
        rewards = reward.to(HALF)  # @fault
        bootstrap = torch.full((ENVS,), steady_value, dtype=HALF)
        returns = discounted_returns(rewards, bootstrap)
        advantage = (returns - returns.mean(1, keepdim=True)).float()
        advantage = advantage / (advantage.std() + 1e-6)
        loss = -(pi.log_prob(action) * advantage).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == 59:
            print(f"step {step} loss {loss.item():.4f} reward {reward.mean().item():.4f}")


if __name__ == "__main__":
    main()
