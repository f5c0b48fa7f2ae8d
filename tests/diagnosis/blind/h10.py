"""Value learning on a small chain world with a replay memory and a seldom copied bootstrap net."""

import os
import random

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(53)
if os.environ.get("REF"):
    torch.set_default_dtype(torch.float64)

CELLS, GAMMA, SYNC, STEPS = 8, 0.9, 25, 200


def world_step(cell, action):
    new = min(CELLS - 1, cell + 1) if action else max(0, cell - 1)
    done = new == CELLS - 1
    return new, 1.0 if done else 0.0, done


def exact_values():
    q = torch.zeros(CELLS - 1, 2)
    for _ in range(200):
        for cell in range(CELLS - 1):
            for action in range(2):
                new, reward, done = world_step(cell, action)
                q[cell, action] = reward + (0.0 if done else GAMMA * q[new].max().item())
    return q


class Agent:
    def __init__(self):
        self.q = self.build()
        self.frozen = self.build()
        self.frozen.load_state_dict(self.q.state_dict())
        self.frozen.requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=5e-3)
        self.memory = []
        self.updates = 0

    @staticmethod
    def build():
        return nn.Sequential(nn.Linear(CELLS, 48), nn.ReLU(), nn.Linear(48, 2))

    @staticmethod
    def encode(cells):
        return F.one_hot(torch.as_tensor(cells), CELLS).to(torch.get_default_dtype())

    def learn(self, rng):
        rows = rng.sample(self.memory, 64)
        cell, action, reward, new, done = zip(*rows, strict=True)
        with torch.no_grad():
            after = self.frozen(self.encode(new)).max(-1).values
            goal = torch.tensor(reward) + GAMMA * after * ~torch.tensor(done)
        value = self.q(self.encode(cell))[torch.arange(64), torch.tensor(action)]
        loss = F.smooth_l1_loss(value, goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % SYNC == 0:
            self.frozen.load_state_dict(self.q.state_dict())
        return loss.item()


def main():
    rng = random.Random(3)
    agent, cell = Agent(), 0
    for _ in range(1500):
        action = rng.randrange(2)
        new, reward, done = world_step(cell, action)
        agent.memory.append((cell, action, reward, new, done))
        cell = rng.randrange(CELLS - 1) if done else new
    truth = exact_values()
    for step in range(STEPS):
        loss = agent.learn(rng)
        if step % SYNC in (0, SYNC - 1):
            with torch.no_grad():
                error = (agent.q(agent.encode(range(CELLS - 1))) - truth).abs().mean().item()
            print(f"step {step} loss {loss:.6f} value error {error:.4f}")


if __name__ == "__main__":
    main()
