"""Walks on a map. The trainer multiplies in BF16 (autocast, weights in FP32), the engine holds
everything in BF16."""

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
    learn,
    of_tokens,
    past,
    slower,
)
from tasks import Walks, asked, earned

GROUP = 8

torch.manual_seed(105)
task = Walks(places=220, roads=8, prompt=(3, 8), steps=24, seed=105)
shape = Shape(task.vocab, width=64, heads=8, kv_heads=8, inner=96, places="learned", tied=True)
policy = Policy(shape)
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
imitate(policy, optimizer, task, 90)
slower(optimizer, 2e-4)
engine = Engine(shape, torch.bfloat16, seed=105)

for update in range(12):
    engine.take(policy.state_dict())
    prompts = asked(task, 8, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = torch.ones_like(answers.tokens, dtype=torch.bool)
    rewards = earned(task, prompts, answers.tokens, counts)
    gains = against_the_others(rewards, GROUP)[:, None]

    whole, real, mask, sampled = joined(prompts, answers, counts)
    positions = counted(real)
    with torch.autocast("cpu", torch.bfloat16):
        logits = policy(whole, positions, past(real))
    logprobs = of_tokens(logits, whole)
    mpnanny.log_mismatch(
        logprobs.detach(),
        sampled,
        mask=mask,
        positions=positions,
        tokens=whole,
        step=update,
        synced=True,
    )
    ratio = (logprobs - logprobs.detach()).exp()
    learn(policy, optimizer, -(ratio * gains)[mask].mean())
    print(f"update {update}: reward {rewards.mean():.3f}")
