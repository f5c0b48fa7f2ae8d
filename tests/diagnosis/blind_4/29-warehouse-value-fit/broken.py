import torch
import torch.nn as nn

torch.manual_seed(29)
STATES, EPISODE = 12, 4000


class Critic(nn.Module):
    def __init__(self, discount=0.999):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(STATES, 32), nn.ReLU(), nn.Linear(32, 1))
        self.register_buffer("gamma", torch.tensor(discount, dtype=torch.bfloat16))  # @fault

    def forward(self, s):
        return self.net(s).squeeze(-1)

    def returns(self, rewards):
        out, acc, g = torch.empty_like(rewards), 0.0, self.gamma.item()
        for t in range(rewards.numel() - 1, -1, -1):
            acc = rewards[t].item() + g * acc
            out[t] = acc
        return out


transition = torch.eye(STATES) * 0.99 + 0.01 / STATES
reward = torch.linspace(-0.1, 0.3, STATES)
true_v = torch.linalg.solve(torch.eye(STATES) - 0.999 * transition, reward)


def rollout():
    s = torch.empty(EPISODE, dtype=torch.long)
    s[0] = torch.randint(0, STATES, ())
    jump = torch.rand(EPISODE) < 0.01
    dest = torch.randint(0, STATES, (EPISODE,))
    for t in range(1, EPISODE):
        s[t] = dest[t] if jump[t] else s[t - 1]
    return s


critic = Critic()
opt = torch.optim.Adam(critic.parameters(), lr=1e-2)
onehot = torch.eye(STATES)
SCALE = 100.0
for ep in range(20):
    s = rollout()
    g = critic.returns(reward[s])
    s, g = s[: EPISODE // 4], g[: EPISODE // 4]
    for _ in range(10):
        pick = torch.randint(0, s.numel(), (256,))
        loss = (critic(onehot[s[pick]]) - g[pick] / SCALE).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if ep % 2 == 0:
        print(f"episode {ep} critic loss {loss.item():.4f}")
with torch.no_grad():
    err = (critic(onehot) * SCALE - true_v).abs().mean() / true_v.abs().mean()
print(f"relative value error {err.item():.4f}")
