"""Walks on a large map. The engine leaves out what is too unlikely."""

import mpnanny
import torch
from engine import Engine
from policy import (
    Policy,
    Shape,
    against_the_others,
    counted,
    imitate,
    joined,
    later,
    learn,
    of_tokens,
    past,
    slower,
)
from tasks import Walks, asked, earned

GROUP = 8
BEST = 40


class Server(Engine):
    def draw(self, logits, temperature):
        least = logits.topk(min(BEST, logits.shape[1]), -1).values[:, -1:]
        return super().draw(logits.masked_fill(logits < least, float("-inf")), temperature)


torch.manual_seed(109)
task = Walks(places=380, roads=10, colours=5, prompt=(4, 7), steps=20, seed=109)
shape = Shape(
    task.vocab, width=64, layers=("recurrence", "attention"), heads=4, kv_heads=2, places="rotary"
)
policy = Policy(shape)
optimizer = torch.optim.AdamW(policy.parameters(), lr=4e-3)
imitate(policy, optimizer, task, 100)
slower(optimizer, 3e-4)
engine = Server(shape, seed=109)

for update in range(18):
    engine.take(policy.state_dict())
    prompts = asked(task, 8, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = torch.ones_like(answers.tokens, dtype=torch.bool)
    rewards = earned(task, prompts, answers.tokens, counts)
    gains = against_the_others(rewards, GROUP)[:, None]

    whole, real, mask, sampled = joined(prompts, answers, counts)
    positions = counted(real)
    hidden = policy.hidden(whole, positions, past(real))
    logprobs = of_tokens(policy.logits(hidden), whole)
    mpnanny.log_mismatch(
        logprobs.detach(),
        sampled,
        mask=mask,
        positions=positions,
        tokens=whole,
        step=update,
        synced=True,
        hidden=later(hidden.detach()),
        head=policy.head.weight.detach(),
    )
    ratio = (logprobs - logprobs.detach()).exp()
    learn(policy, optimizer, -(ratio * gains)[mask].mean())
    print(f"update {update}: reward {rewards.mean():.3f}")
