"""Group-relative policy gradient on a token-choice task."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(23)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
VOCAB, LENGTH, GROUP = 6, 4, 16


class Policy(nn.Module):
    def __init__(self, d_prompt=8, width=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d_prompt, width), nn.Tanh())
        self.head = nn.Linear(width, LENGTH * VOCAB)

    def forward(self, prompt):
        return self.head(self.trunk(prompt)).view(-1, LENGTH, VOCAB)


def answer(prompt):
    return (prompt[:, :LENGTH] > 0).long() + 2 * (prompt[:, LENGTH:] > 0).long()


def grade(tokens, prompt):
    return (tokens == answer(prompt)[:, None]).to(DTYPE).mean(-1)


policy = Policy().to(DTYPE)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for step in range(120):
    prompt = torch.randn(16, 8).to(DTYPE)
    logp = torch.log_softmax(policy(prompt), -1)[:, None].expand(-1, GROUP, -1, -1)
    with torch.no_grad():
        gumbel = -torch.log(torch.empty_like(logp).exponential_())
        tokens = (logp + gumbel).argmax(-1)
    reward = grade(tokens, prompt)
    centred = reward - reward.mean(1, keepdim=True)
    advantage = centred / reward.std(1, keepdim=True)  # @fault
    logp = logp.gather(-1, tokens[..., None]).squeeze(-1).sum(-1)
    loss = -(logp * advantage).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f} reward {reward.mean().item():.3f}")
