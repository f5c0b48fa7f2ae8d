"""Q-learning on a random walk with a slowly following target network."""

import copy
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(14)
HALF = torch.float32 if os.environ.get("REF") else torch.bfloat16
STATES, GAMMA, TAU, STEPS = 12, 0.5, 0.02, 200


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(STATES, 384), nn.ReLU(), nn.Linear(384, 2))

    def forward(self, s):
        return self.net(F.one_hot(s, STATES).to(self.net[0].weight.dtype))


def environment(s, a):
    nxt = (s + 2 * a - 1).clamp(0, STATES - 1)
    reward = 1.0 - 0.1 * (nxt.float() - 8).abs()
    return nxt, reward


def exact_q():
    s = torch.arange(STATES).repeat_interleave(2)
    a = torch.arange(2).repeat(STATES)
    nxt, reward = environment(s, a)
    q = torch.zeros(STATES, 2)
    for _ in range(400):
        q = (reward + GAMMA * q.max(1).values[nxt]).view(STATES, 2)
    return q


@torch.no_grad()
def soft_update(target, online):
    for t, p in zip(target.parameters(), online.parameters(), strict=True):
        t.lerp_(p.to(t.dtype), TAU)  # @fault


def main():
    online = QNet()
    target = copy.deepcopy(online).to(HALF).requires_grad_(False)  # @fault
    optimizer = torch.optim.Adam(online.parameters(), lr=1.5e-3)
    truth = exact_q()
    for step in range(STEPS):
        s = torch.randint(0, STATES, (128,))
        a = torch.randint(0, 2, (128,))
        nxt, reward = environment(s, a)
        with torch.no_grad():
            bootstrap = target(nxt).float().max(1).values
        q = online(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, reward + GAMMA * bootstrap)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        soft_update(target, online)
        if step % 20 == 0:
            print(f"step {step} td loss {loss.item():.4f}")
    with torch.no_grad():
        q = online(torch.arange(STATES))
    print(
        f"final {(q - truth).square().mean().sqrt():.4f} mean {q.mean():.3f} of {truth.mean():.3f}"
    )


if __name__ == "__main__":
    main()
