"""Policy gradient on a slippery corridor with a sparse reward."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(109)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
LENGTH, HORIZON, EPISODES, SLIP = 5, 14, 24, 0.15


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 * LENGTH + 1, 32), nn.Tanh(), nn.Linear(32, 2))
        with torch.no_grad():
            self.net[2].bias[0] += 1.0

    def forward(self, s):
        return self.net(F.one_hot(s + LENGTH, 2 * LENGTH + 1).to(DTYPE))


def rollout(policy):
    s = torch.zeros(EPISODES, dtype=torch.long)
    alive = torch.ones(EPISODES, dtype=torch.bool)
    ret = torch.zeros(EPISODES, dtype=DTYPE)
    states, actions, masks = [], [], []
    with torch.no_grad():
        for t in range(HORIZON):
            p_right = policy(s).softmax(-1)[:, 1]
            a = (torch.rand(EPISODES, dtype=torch.float64) < p_right).long()
            states.append(s)
            actions.append(a)
            masks.append(alive)
            slip = torch.rand(EPISODES, dtype=torch.float64) < SLIP
            move = torch.where(slip, 1 - a, a)
            s = (s + 2 * move - 1).clamp(-LENGTH, LENGTH)
            ret = torch.where(alive & (s == LENGTH), torch.full_like(ret, 0.97**t), ret)
            alive = alive & (s.abs() < LENGTH)
    return torch.stack(states), torch.stack(actions), torch.stack(masks), ret


def main():
    policy = Policy().to(DTYPE)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    won = []
    for step in range(120):
        states, actions, masks, ret = rollout(policy)
        advantage = (ret - ret.mean()) / (ret.std() + 1e-4)
        logp = F.log_softmax(policy(states), -1)
        chosen = logp.gather(-1, actions[..., None]).squeeze(-1)
        loss = -(chosen * advantage * masks).sum() / masks.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        won.append(ret.mean().item())
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():+.4f} return {won[-1]:.3f}")
    print(f"final return {sum(won[-15:]) / 15:.4f} first {sum(won[:15]) / 15:.4f}")


if __name__ == "__main__":
    main()
