"""Walks on a wide map, The trainer saves time where its matrix is largest."""

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

GROUP = 12

torch.manual_seed(115)
task = Walks(places=300, roads=3, colours=2, prompt=(4, 9), steps=24, seed=115)
shape = Shape(task.vocab, width=64, layers=("attention",), heads=4, kv_heads=2, inner=64)
policy = Policy(shape)
optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-3)
imitate(policy, optimizer, task, 150, batch=24)
slower(optimizer, 3e-4)
engine = Engine(shape, seed=115)

for update in range(16):
    engine.take(policy.state_dict())
    prompts = asked(task, 4, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = torch.ones_like(answers.tokens, dtype=torch.bool)
    rewards = earned(task, prompts, answers.tokens, counts)
    gains = against_the_others(rewards, GROUP)[:, None]

    whole, real, mask, sampled = joined(prompts, answers, counts)
    positions = counted(real)
    hidden = policy.hidden(whole, positions, past(real))
    with torch.autocast("cpu", torch.bfloat16):
        logits = policy.logits(hidden)
    logprobs = of_tokens(logits, whole)
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
