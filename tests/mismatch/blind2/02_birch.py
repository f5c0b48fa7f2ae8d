"""Walks on a map. The engine is to be small, so it packs its weights."""

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

GROUP = 6
LEVELS = 7


class Server(Engine):
    def converted(self, name, x):
        if x.dim() < 2 or name.startswith(("words", "head")):
            return x.clone()
        unit = x.abs().amax(-1, keepdim=True) / LEVELS
        return (x / unit).round() * unit


torch.manual_seed(102)
task = Walks(places=160, roads=7, prompt=(6, 6), steps=22, seed=102)
shape = Shape(task.vocab, width=64, layers=("attention",) * 3, heads=4, inner=96)
policy = Policy(shape)
optimizer = torch.optim.AdamW(policy.parameters(), lr=4e-3, betas=(0.9, 0.95), weight_decay=0.1)
imitate(policy, optimizer, task, 110)
slower(optimizer, 3e-4)
engine = Server(shape, seed=102)

for update in range(20):
    engine.take(policy.state_dict())
    prompts = asked(task, 8, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = torch.ones_like(answers.tokens, dtype=torch.bool)
    rewards = earned(task, prompts, answers.tokens, counts)
    gains = against_the_others(rewards, GROUP)[:, None]

    whole, real, mask, sampled = joined(prompts, answers, counts)
    at = whole.shape[1] - task.steps
    logprobs = of_tokens(policy(whole, counted(real), past(real)), whole)[:, at:]
    mpnanny.log_mismatch(
        logprobs.detach(),
        answers.logprobs,
        mask=counts,
        tokens=answers.tokens,
        step=update,
        synced=True,
    )
    ratio = (logprobs - logprobs.detach()).exp()
    learn(policy, optimizer, -(ratio * gains).mean())
    print(f"update {update}: reward {rewards.mean():.3f}")
