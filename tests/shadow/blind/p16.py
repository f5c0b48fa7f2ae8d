"""Behaviour cloning from a replay memory filled by sixteen environments in turn."""

import os

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(101)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16

ENVIRONMENTS, ROUNDS, OBS, ACTIONS = 16, 256, 12, 5


class Replay:
    def __init__(self, dtype):
        self.dtype = dtype
        self.obs, self.act = [], []

    def add(self, obs, act):
        self.obs.append(obs.to(self.dtype))
        self.act.append(act)

    def freeze(self):
        self.obs, self.act = torch.cat(self.obs), torch.cat(self.act)
        return self

    def sample(self, size):
        u = torch.rand(size, dtype=self.obs.dtype)  # @fault
        rows = (u * len(self.obs)).long()  # @fault
        return self.obs[rows], self.act[rows]


def expert(obs, environment):
    turned = obs.roll(1, dims=1) if environment % 2 else -obs
    return (turned[:, :ACTIONS] + 0.5 * turned[:, ACTIONS : 2 * ACTIONS]).argmax(dim=1)


def episode(environment, size):
    obs = torch.randn(size, OBS)
    obs[:, -1] = 1.0 if environment % 2 else -1.0
    obs[:, -2] = environment / ENVIRONMENTS
    return obs, expert(obs, environment)


memory = Replay(DTYPE)
for _ in range(ROUNDS):
    for environment in range(ENVIRONMENTS):
        memory.add(*episode(environment, 1))
memory.freeze()

policy = nn.Sequential(nn.Linear(OBS, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
policy.append(nn.Linear(64, ACTIONS))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
for step in range(150):
    obs, act = memory.sample(128)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=DTYPE is torch.bfloat16):
        logits = policy(obs)
    loss = nn.functional.cross_entropy(logits.float(), act)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(f"step {step} loss {loss.item():.4f}")

with torch.no_grad():
    correct = []
    for environment in range(ENVIRONMENTS):
        obs, act = episode(environment, 200)
        correct.append((policy(obs).argmax(dim=1) == act).float().mean())
print(f"agreement with the expert {torch.stack(correct).mean().item():.4f}")
