"""Off-policy value learning on logged transitions, with a slowly moving copy for the bootstrap."""

import copy
import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(3)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32

STATE, ACTIONS, GAMMA, TAU = 6, 3, 0.98, 0.005
STEPS, BATCH = 180, 128


class QNet(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(STATE, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.value = nn.Linear(hidden, ACTIONS)

    def forward(self, s):
        return self.value(self.body(s))


def make_log(n=4096):
    gen = torch.Generator().manual_seed(11)
    s = torch.randn(n, STATE, generator=gen)
    a = torch.randint(0, ACTIONS, (n,), generator=gen)
    push = torch.randn(ACTIONS, STATE, generator=gen) * 0.4
    s2 = 1.15 * s + push[a] + 0.1 * torch.randn(n, STATE, generator=gen)
    r = 1.0 - 0.1 * s2.abs().mean(-1)
    done = torch.rand(n, generator=gen) < 0.05
    return s.to(DTYPE), a, r.to(DTYPE), s2.to(DTYPE), done.to(DTYPE)


@torch.no_grad()
def soft_update(target, online, tau):
    for t, o in zip(target.parameters(), online.parameters(), strict=True):
        t.mul_(tau).add_(o, alpha=1.0 - tau)  # @fault


def main():
    s, a, r, s2, done = make_log()
    q = QNet().to(DTYPE)
    q_target = copy.deepcopy(q).requires_grad_(False)
    opt = torch.optim.Adam(q.parameters(), lr=3e-3)
    pick = torch.Generator().manual_seed(5)
    for step in range(STEPS):
        i = torch.randint(0, len(s), (BATCH,), generator=pick)
        with torch.no_grad():
            boot = q_target(s2[i]).max(-1).values
            goal = r[i] + GAMMA * (1.0 - done[i]) * boot
        est = q(s[i]).gather(1, a[i, None]).squeeze(1)
        loss = F.mse_loss(est, goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        soft_update(q_target, q, TAU)
        if step % 15 == 0 or step == STEPS - 1:
            print(f"step {step} loss {loss.item():.4g} mean_q {est.mean().item():.4g}")


if __name__ == "__main__":
    main()
