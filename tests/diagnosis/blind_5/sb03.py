"""Policy evaluation on a noisy ring road with a neural value function."""
import copy
import torch
from torch import nn

torch.manual_seed(0)
N, GAMMA, TAU = 24, 0.8, 0.01
dtype_t = torch.bfloat16  # @fault


class RingWorld:
    def __init__(self, n):
        g = torch.Generator().manual_seed(5)
        self.n = n
        self.feat = torch.stack([torch.sin(torch.arange(n) * k * 6.28318 / n) for k in (1, 2, 3)]
                                + [torch.cos(torch.arange(n) * k * 6.28318 / n) for k in (1, 2, 3)], 1)
        self.reward = 1.5 + torch.randn(n, generator=g).abs()
        self.p = torch.zeros(n, n)
        for s in range(n):
            for d, w in ((-1, .2), (0, .1), (1, .5), (2, .2)):
                self.p[s, (s + d) % n] += w

    def true_value(self):
        eye = torch.eye(self.n, dtype=torch.float64)
        return torch.linalg.solve(eye - GAMMA * self.p.double(), self.reward.double()).to(self.reward.dtype)

    def batch(self, b):
        s = torch.randint(self.n, (b,))
        s2 = torch.multinomial(self.p[s], 1).squeeze(1)
        r = self.reward[s] + 0.1 * torch.randn(b)
        return self.feat[s], r, self.feat[s2]


class ValueNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class Learner:
    def __init__(self, env):
        self.env = env
        self.online = ValueNet()
        self.target = copy.deepcopy(self.online).to(dtype_t).requires_grad_(False)
        self.opt = torch.optim.Adam(self.online.parameters(), lr=2e-3)

    @torch.no_grad()
    def sync(self):
        for pt, p in zip(self.target.parameters(), self.online.parameters()):
            pt.lerp_(p.to(pt.dtype), TAU)

    def learn(self):
        x, r, x2 = self.env.batch(256)
        with torch.no_grad():
            boot = self.target(x2.to(next(self.target.parameters()).dtype)).to(r.dtype)
        loss = nn.functional.huber_loss(self.online(x), r + GAMMA * boot)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        for _ in range(4):
            self.sync()
        return loss.item()


def main():
    env = RingWorld(N)
    truth = env.true_value()
    agent = Learner(env)
    for i in range(1, 601):
        loss = agent.learn()
        if i % 100 == 0:
            with torch.no_grad():
                v = agent.online(env.feat)
            rms = (v - truth).pow(2).mean().sqrt().item()
            print(f"update {i}  td-loss {loss:.4f}  mean V {v.mean():.3f} (true {truth.mean():.3f})  rms {rms:.4f}")
    print("value rms error", round(rms, 4))


if __name__ == "__main__":
    main()
