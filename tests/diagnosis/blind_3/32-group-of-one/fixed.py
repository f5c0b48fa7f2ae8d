"""Policy gradient with advantages normalised within each prompt's group of rollouts."""
import torch
import torch.nn as nn

torch.manual_seed(27)
PROMPTS, ROLLOUTS, ACTIONS = 12, 6, 8
prompts = torch.randn(PROMPTS, 16)
payoff = torch.randn(PROMPTS, ACTIONS)


def advantages(reward, keep):
    out = torch.zeros_like(reward)
    for i in range(PROMPTS):
        r = reward[i][keep[i]]
        if len(r):
            out[i][keep[i]] = (r - r.mean()) / (r.std(unbiased=False) + 1e-4)
    return out


policy = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, ACTIONS))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
for step in range(100):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = policy(prompts)
    log_p = logits.float().log_softmax(1)
    noise = -torch.empty(PROMPTS, ROLLOUTS, ACTIONS).exponential_().log()
    action = (log_p.detach()[:, None] + noise).argmax(-1)
    reward = payoff.gather(1, action) + 0.1 * torch.randn(PROMPTS, ROLLOUTS)
    keep = torch.rand(PROMPTS, ROLLOUTS) < 0.75
    loss = -(advantages(reward, keep) * log_p.gather(1, action)).sum() / keep.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 99:
        print(f"step {step} loss {loss.item():.4f} reward {reward.mean().item():.4f}")
