"""Group-relative policy gradient on a small set of arithmetic prompts."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(4)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
PROMPTS, ACTIONS, GROUP, PER_STEP, STEPS = 24, 8, 8, 6, 150


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(PROMPTS, 32)
        self.body = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, ACTIONS))

    def forward(self, prompts):
        return torch.log_softmax(self.body(self.embed(prompts)), -1)


def advantages(rewards):
    centred = rewards - rewards.mean(1, keepdim=True)
    return centred / (rewards.std(1, keepdim=True) + 1e-4)


def update(policy, old, opt, generator):
    prompts = torch.randint(PROMPTS, (PER_STEP,), generator=generator)
    with torch.no_grad():
        behaviour = old(prompts)
        actions = torch.multinomial(
            behaviour.float().exp(), GROUP, replacement=True, generator=generator
        )
        rewards = (actions == (prompts * 5 % ACTIONS).unsqueeze(1)).to(behaviour.dtype)
        advantage = advantages(rewards)
    ratio = (policy(prompts).gather(1, actions) - behaviour.gather(1, actions)).exp()
    clipped = ratio.clamp(0.8, 1.2)
    loss = -torch.minimum(ratio * advantage, clipped * advantage).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item(), rewards.mean().item()


def main():
    policy, old = Policy().to(DTYPE), Policy().to(DTYPE)
    opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(7)
    scores = []
    for step in range(STEPS):
        if step % 2 == 0:
            old.load_state_dict(policy.state_dict())
        loss, reward = update(policy, old, opt, generator)
        scores = (scores + [reward])[-20:]
        if step % 15 == 0 or step == STEPS - 1:
            print(f"step {step} loss {loss:.5f} reward {sum(scores) / len(scores):.4f}")


main()
