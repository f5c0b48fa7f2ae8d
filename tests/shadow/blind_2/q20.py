"""Actor and critic on a one-step continuous control task."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(20)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


class ActorCritic(nn.Module):
    def __init__(self, d_obs=6, d_act=2, width=64):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(d_obs, width), nn.Tanh(), nn.Linear(width, d_act))
        self.critic = nn.Sequential(nn.Linear(d_obs, width), nn.Tanh(), nn.Linear(width, 1))
        self.log_std = nn.Parameter(torch.full((d_act,), -0.7))

    def forward(self, obs):
        dist = torch.distributions.Normal(self.actor(obs), self.log_std.exp())
        return dist, self.critic(obs)


def rollout(model, n=128):
    obs = torch.randn(n, 6).to(DTYPE)
    with torch.no_grad():
        dist, _ = model(obs)
        action = dist.sample()
    target = obs[:, :2]
    reward = 2 * obs[:, 2] + obs[:, 3] - (action - target).pow(2).sum(-1)
    return obs, action, reward


model = ActorCritic().to(DTYPE)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
explained, rewards = [], []
for step in range(150):
    obs, action, returns = rollout(model)
    dist, values = model(obs)
    logp = dist.log_prob(action).sum(-1)
    advantage = (returns - values.squeeze(-1)).detach()
    policy_loss = -(logp * advantage).mean()
    value_loss = (returns - values).pow(2).mean()  # @fault
    loss = policy_loss + 0.5 * value_loss - 0.001 * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    explained.append((1 - advantage.var() / returns.var()).item())
    rewards.append(returns.mean().item())
    if step % 30 == 0:
        print(f"step {step} loss {loss.item():.3f} mean reward {rewards[-1]:.3f}")
print(
    f"explained variance of the critic {sum(explained[-10:]) / 10:.3f}, "
    f"mean reward {sum(rewards[-10:]) / 10:.3f}"
)
