import copy
import torch
import torch.nn as nn

torch.manual_seed(3)
N_STATES, GAMMA, TAU = 24, 0.6, 0.01


class ValueNet(nn.Module):
    def __init__(self, n, width=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, s):
        return self.body(s).squeeze(-1)


def make_ring(n):
    rewards = torch.rand(n) * 4.0 + 1.0
    nxt = (torch.arange(n) + 1) % n
    P = torch.zeros(n, n)
    P[torch.arange(n), nxt] = 1.0
    true_v = torch.linalg.solve(torch.eye(n) - GAMMA * P, rewards)
    return rewards, nxt, true_v


@torch.no_grad()
def soft_update(target, online, tau):
    for t, p in zip(target.parameters(), online.parameters()):
        t.lerp_(p.to(t.dtype), tau)


def main():
    rewards, nxt, true_v = make_ring(N_STATES)
    onehot = torch.eye(N_STATES)
    net = ValueNet(N_STATES)
    target = copy.deepcopy(net).to(torch.bfloat16)  # @fault
    for p in target.parameters():
        p.requires_grad_(False)
    dtype = next(target.parameters()).dtype
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)

    for step in range(600):
        s = torch.randint(0, N_STATES, (64,))
        with torch.no_grad():
            boot = target(onehot[nxt[s]].to(dtype)).float()
        goal = rewards[s] + GAMMA * boot
        loss = nn.functional.smooth_l1_loss(net(onehot[s]), goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        soft_update(target, net, TAU)
        if step % 60 == 0:
            print(f"step {step} td loss {loss.item():.4f}")

    with torch.no_grad():
        err = (net(onehot) - true_v).abs().mean() / true_v.abs().mean()
    print(f"relative value error {err.item():.4f}")


if __name__ == "__main__":
    main()
