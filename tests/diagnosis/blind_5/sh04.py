"""Small DQN for an inventory problem; the target network is replaced every 60 updates."""
import torch
from torch import nn

torch.manual_seed(9)
CAP, GAMMA = 8, 0.9


def env_step(stock, order, gen):
    stock = (stock + order).clamp(max=CAP)
    demand = torch.poisson(torch.full(stock.shape, 2.0), generator=gen).long()
    sold = torch.minimum(stock, demand)
    reward = 1.0 * sold - 0.1 * (stock - sold) - 0.3 * (order > 0) - 0.3 * order
    return stock - sold, reward.float()


def feats(s):
    return nn.functional.one_hot(s, CAP + 1).float()


class Ring:
    def __init__(self, size):
        self.s = torch.zeros(size, dtype=torch.uint8)
        self.a = torch.zeros(size, dtype=torch.uint8)
        self.r = torch.zeros(size, dtype=torch.float16)
        self.s2 = torch.zeros(size, dtype=torch.uint8)
        self.size, self.n = size, 0

    def add(self, s, a, r, s2):
        i = (torch.arange(len(s)) + self.n) % self.size
        self.s[i], self.a[i], self.r[i], self.s2[i] = s.byte(), a.byte(), r.half(), s2.byte()
        self.n += len(s)

    def sample(self, b, gen):
        i = torch.randint(min(self.n, self.size), (b,), generator=gen)
        return self.s[i].long(), self.a[i].long(), self.r[i].float(), self.s2[i].long()


def average_reward(policy, gen, steps=150):
    s, tot = torch.zeros(200, dtype=torch.int64), 0.0
    for _ in range(steps):
        s, r = env_step(s, policy(s), gen)
        tot += r.mean().item()
    return tot / steps


def main():
    gen = torch.Generator().manual_seed(3)
    q = nn.Sequential(nn.Linear(CAP + 1, 64), nn.ReLU(), nn.Linear(64, CAP + 1))
    target = nn.Sequential(nn.Linear(CAP + 1, 64), nn.ReLU(), nn.Linear(64, CAP + 1)).requires_grad_(False)
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=3e-3)
    ring = Ring(8000)
    visits = torch.zeros(CAP + 1)  # whole numbers
    s = torch.zeros(64, dtype=torch.int64)
    for it in range(600):
        with torch.no_grad():
            a = q(feats(s)).argmax(1)
        a = torch.where(torch.rand(64, generator=gen) < max(0.1, 1 - it / 300), torch.randint(CAP + 1, (64,), generator=gen), a)
        s2, r = env_step(s, a, gen)
        visits += torch.bincount(s, minlength=CAP + 1)
        ring.add(s, a, r, s2)
        s = s2
        bs, ba, br, bs2 = ring.sample(256, gen)
        with torch.no_grad():
            y = br + GAMMA * target(feats(bs2)).amax(1)
        loss = nn.functional.smooth_l1_loss(q(feats(bs)).gather(1, ba[:, None]).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (it + 1) % 60 == 0:
            target.load_state_dict(q.state_dict())
        if (it + 1) % 150 == 0:
            r = average_reward(lambda z: q(feats(z)).argmax(1), gen)
            print(f"{it + 1}: loss {loss.item():.4f} average reward {r:.3f} visits {int(visits.sum())}")
    base = average_reward(lambda z: torch.randint(CAP + 1, z.shape, generator=gen), gen)
    print("average reward", round(r, 4), "random policy", round(base, 3))


main()
