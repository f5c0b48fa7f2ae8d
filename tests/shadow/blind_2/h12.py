"""Policy gradient with illegal moves masked; the dashboard's figures are kept in FP16."""

import contextlib
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(112)
REF = os.environ.get("REF")
BOARD = torch.float32 if REF else torch.float16


def precision():
    if REF:
        return contextlib.nullcontext()
    return torch.autocast("cpu", dtype=torch.bfloat16)


class Dashboard:
    """Totals that are only printed."""

    def __init__(self):
        self.episodes = torch.zeros((), dtype=BOARD)
        self.total = torch.zeros((), dtype=BOARD)
        self.square = torch.zeros((), dtype=BOARD)

    def add(self, returns):
        self.episodes += 1
        self.total += returns.sum().to(BOARD)
        self.square += (returns * 100).to(BOARD).pow(2).sum()

    def line(self):
        return f"total {self.total.item():.1f} spread {self.square.sqrt().item():.1f}"


class ActorCritic(nn.Module):
    def __init__(self, d_obs=8, moves=6, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d_obs + moves, width), nn.Tanh())
        self.actor = nn.Linear(width, moves)
        self.critic = nn.Linear(width, 1)

    def forward(self, obs, legal):
        h = self.body(torch.cat([obs, legal.float()], -1))
        return self.actor(h), self.critic(h).squeeze(-1)


taste = torch.randn(8, 6)
model = ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
board = Dashboard()
regret = []
for step in range(150):
    obs = torch.randn(128, 8)
    legal = torch.rand(128, 6) < 0.6
    legal[torch.arange(128), torch.randint(6, (128,))] = True
    worth = torch.tanh(obs @ taste)
    with precision():
        logits, value = model(obs, legal)
    logits = logits.float().masked_fill(~legal, float("-inf"))
    logp = torch.log_softmax(logits, -1)
    with torch.no_grad():
        move = torch.multinomial(logp.exp(), 1).squeeze(1)
    reward = worth.gather(1, move[:, None]).squeeze(1)
    advantage = reward - value.detach().float()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    chosen = logp.gather(1, move[:, None]).squeeze(1)
    loss = -(chosen * advantage).mean() + 0.5 * (value.float() - reward).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    board.add(reward)
    best = worth.masked_fill(~legal, -2.0).amax(-1)
    regret.append((best - reward).mean().item())
    if step % 30 == 29:
        print(f"step {step} loss {loss.item():.4f} {board.line()}")
print(f"final regret {sum(regret[-15:]) / 15:.4f}")
