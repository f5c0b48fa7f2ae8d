"""Letters backwards. Only adapters learn; the engine gets weights with the adapters worked in."""

import mpnanny
import torch
import torch.nn as nn
from engine import Engine
from policy import (
    Policy,
    Shape,
    against_the_others,
    counted,
    imitate,
    joined,
    learn,
    of_tokens,
    past,
    up_to,
)
from tasks import END, Mirror, asked, earned

GROUP = 8
MERGED = ("q", "kv", "out", "up")


class Adapted(nn.Module):
    def __init__(self, linear, rank=4):
        super().__init__()
        self.weight = linear.weight.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, self.weight.shape[1]) / rank)
        self.b = nn.Parameter(torch.zeros(self.weight.shape[0], rank))

    def full(self):
        return self.weight + self.b @ self.a

    def forward(self, x):
        return x @ self.full().T


def for_engine(policy):
    weights = policy.state_dict()
    for name, module in policy.named_modules():
        if isinstance(module, Adapted) and name.split(".")[-1] in MERGED:
            weights[name + ".weight"] = module.full()
    return weights


torch.manual_seed(113)
task = Mirror(letters=10, keys=2, length=(3, 6), seed=113)
shape = Shape(task.vocab, heads=4, kv_heads=2, inner=64)
policy = Policy(shape)
imitate(policy, torch.optim.Adam(policy.parameters(), lr=4e-3), task, 130)
policy.requires_grad_(False)
for block in policy.blocks:
    for part in (block.mixer, block.mlp):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.Linear):
                setattr(part, name, Adapted(child))
optimizer = torch.optim.AdamW([p for p in policy.parameters() if p.requires_grad], lr=5e-3)
imitate(policy, optimizer, task, 40)
engine = Engine(shape, seed=113)

for update in range(24):
    engine.take(for_engine(policy))
    prompts = asked(task, 10, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = up_to(answers.tokens, END)
    rewards = earned(task, prompts, answers.tokens, counts)
    gains = against_the_others(rewards, GROUP)[:, None]

    whole, real, mask, sampled = joined(prompts, answers, counts)
    at = whole.shape[1] - task.steps
    logprobs = of_tokens(policy(whole, counted(real), past(real)), whole)[:, at:]
    mpnanny.log_mismatch(logprobs.detach(), answers.logprobs, counts)
    ratio = (logprobs - logprobs.detach()).exp()
    learn(policy, optimizer, -(ratio * gains)[counts].mean())
    print(f"update {update}: reward {rewards.mean():.3f}")
