"""Q-learning in a corridor with a near small prize and a far large one."""
import random
import torch
from torch import nn

torch.manual_seed(1)
random.seed(1)
N, GAMMA, START = 11, 0.97, 3


class Corridor:
    """Many copies that restart by themselves; `obs` is already the new start after an end."""

    def __init__(self, copies):
        self.pos = torch.full((copies,), START)

    @staticmethod
    def encode(pos):
        return nn.functional.one_hot(pos, N).to(torch.get_default_dtype())

    def step(self, action):
        new = self.pos + 2 * action - 1
        reward = torch.where(new == N - 1, 1.0, torch.where(new == 0, 0.55, 0.0))
        done = (new == 0) | (new == N - 1)
        self.pos = torch.where(done, torch.full_like(new, START), new)
        return reward.to(torch.get_default_dtype()), done


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(N, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, x):
        return self.net(x)


@torch.no_grad()
def greedy_return(q):
    pos, disc = START, 1.0
    for _ in range(60):
        a = q(Corridor.encode(torch.tensor([pos]))).argmax().item()
        pos += 2 * a - 1
        disc *= GAMMA
        if pos in (0, N - 1):
            return disc * (1.0 if pos else 0.55)
    return 0.0


def main():
    env, q, target = Corridor(64), Q(), Q()
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=3e-3)
    store, eps = [], 1.0
    for it in range(600):
        obs = env.pos.clone()
        with torch.no_grad():
            act = q(Corridor.encode(obs)).argmax(1)
        rnd = torch.rand(64) < max(0.3, 1 - it / 300)
        act = torch.where(rnd, torch.randint(2, (64,)), act)
        rew, done = env.step(act)
        store.append((obs, act, rew, env.pos.clone(), done))
        store = store[-200:]
        s, a, r, s2, d = [torch.cat(c) for c in zip(*random.sample(store, min(4, len(store))))]
        with torch.no_grad():
            boot = target(Corridor.encode(s2)).amax(1)
            goal = r + GAMMA * boot  # @fault
        loss = nn.functional.smooth_l1_loss(q(Corridor.encode(s)).gather(1, a[:, None]).squeeze(1), goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 10 == 0:
            target.load_state_dict(q.state_dict())
        if it % 100 == 99:
            with torch.no_grad():
                v = q(Corridor.encode(torch.tensor([START]))).amax().item()
            print(f"it {it + 1} loss {loss.item():.5f} Q(start) {v:.3f} greedy return {greedy_return(q):.3f}")
    print("greedy return", round(greedy_return(q), 4))


if __name__ == "__main__":
    main()
