import torch
import torch.nn as nn

torch.manual_seed(20)
OBS, ACT, CLIP = 8, 256, 0.2
target_map = torch.randn(OBS, ACT) * 0.3


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Linear(OBS, ACT)
        nn.init.zeros_(self.mu.weight)
        self.log_std = nn.Parameter(torch.full((ACT,), -0.2))

    def dist(self, obs):
        return torch.distributions.Normal(self.mu(obs), self.log_std.exp())

    def log_prob(self, obs, act):
        return self.dist(obs).log_prob(act).sum(-1)


class Rollout:
    def __init__(self, policy, n):
        with torch.no_grad():
            self.obs = torch.randn(n, OBS)
            self.act = policy.dist(self.obs).sample()
            self.reward = -(self.act - self.obs @ target_map).pow(2).mean(-1)
            baseline = -(policy.mu(self.obs) - self.obs @ target_map).pow(2).mean(-1)
            adv = self.reward - baseline
            self.adv = (adv - adv.mean()) / (adv.std() + 1e-6)
            logp = policy.log_prob(self.obs, self.act)
            self.logp = logp.to(torch.bfloat16)  # @fault


def surrogate(policy, data, pick):
    ratio = (policy.log_prob(data.obs[pick], data.act[pick]) - data.logp[pick].float()).exp()
    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
    return -torch.min(ratio * data.adv[pick], clipped * data.adv[pick]).mean()


policy = Policy()
opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
for update in range(150):
    data = Rollout(policy, 512)
    for pick in torch.randperm(512).split(256):
        for _ in range(2):
            loss = surrogate(policy, data, pick)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            opt.step()
    if update % 15 == 0:
        print(f"update {update} mean reward {data.reward.mean().item():.4f} loss {loss.item():.4f}")
with torch.no_grad():
    obs = torch.randn(2000, OBS)
    err = (policy.mu(obs) - obs @ target_map).pow(2).mean()
print(f"policy error {err.item():.4f} final reward {data.reward.mean().item():.4f}")
