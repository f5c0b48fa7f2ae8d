"""Offline action values of a contextual bandit, transitions drawn by recorded weight."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(18)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16
SIZE, ACTIONS = 8192, 4


class WeightedBuffer:
    def __init__(self, obs, action, reward, weight):
        self.obs, self.action, self.reward = obs, action, reward
        self.probs = (weight / weight.sum()).to(DTYPE)
        self.drawn = torch.zeros(len(obs), dtype=torch.bool)

    def sample(self, n):
        cdf = torch.cumsum(self.probs, 0)  # @fault
        idx = torch.searchsorted(cdf, torch.rand(n).to(DTYPE) * cdf[-1])  # @fault
        idx = idx.clamp(max=len(self.probs) - 1)
        self.drawn[idx] = True
        return self.obs[idx], self.action[idx], self.reward[idx]


mixing = torch.randn(6, ACTIONS)


def true_reward(obs):
    return torch.sin(obs @ mixing) + 0.3 * obs[:, :ACTIONS] ** 2


obs = torch.randn(SIZE, 6)
action = torch.randint(ACTIONS, (SIZE,))
reward = true_reward(obs).gather(1, action[:, None]).squeeze(1) + 0.2 * torch.randn(SIZE)
buffer = WeightedBuffer(obs, action, reward, torch.exp(0.3 * torch.randn(SIZE)))
obs_val = torch.randn(1024, 6)

model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
model.append(nn.Linear(64, ACTIONS))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
last = []
for step in range(150):
    o, a, r = buffer.sample(256)
    q = model(o).gather(1, a[:, None]).squeeze(1)
    loss = (r - q).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    last.append(loss.item())
    if step % 30 == 29:
        with torch.no_grad():
            val = (model(obs_val) - true_reward(obs_val)).pow(2).mean()
        print(
            f"step {step} loss {sum(last[-10:]) / 10:.4f} validation {val.item():.4f} "
            f"transitions used {buffer.drawn.sum().item()}"
        )
