"""Group-relative policy gradient: sampled answers per prompt, rewards normalised per group."""

import os
from dataclasses import dataclass

import torch

torch.set_num_threads(1)
torch.manual_seed(31)
torch.set_default_dtype(torch.float64 if os.environ.get("REF") else torch.float32)


@dataclass
class Settings:
    prompts: int = 12
    samples: int = 16
    answers: int = 8
    width: int = 32
    steps: int = 90
    lr: float = 0.01


class Policy(torch.nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(10, cfg.width), torch.nn.Tanh(), torch.nn.Linear(cfg.width, cfg.answers)
        )

    def forward(self, prompts):
        return torch.log_softmax(self.body(prompts), dim=-1)


def grade(prompts, answers, key):
    right = (prompts @ key).argmax(dim=1)
    near = (answers - right).abs() <= 1
    return 0.3 * near.to(prompts.dtype) + 0.7 * (answers == right).to(prompts.dtype)


def advantages(rewards):
    centred = rewards - rewards.mean(dim=0, keepdim=True)
    return centred / rewards.std(dim=0, keepdim=True)  # @fault


cfg = Settings()
key = torch.randn(10, cfg.answers)
policy = Policy(cfg)
optimizer = torch.optim.Adam(policy.parameters(), lr=cfg.lr)
for step in range(cfg.steps):
    prompts = torch.randn(cfg.prompts, 10)
    log_probs = policy(prompts).expand(cfg.samples, -1, -1)
    race = torch.empty_like(log_probs).exponential_().log()
    answers = (log_probs.detach() - race).argmax(dim=-1)
    rewards = grade(prompts, answers, key)
    chosen = log_probs.gather(-1, answers.unsqueeze(-1)).squeeze(-1)
    loss = -(advantages(rewards) * chosen).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():+.4f} reward {rewards.mean().item():.3f}")
