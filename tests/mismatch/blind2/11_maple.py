"""Walks on a map, long ones. The engine stretches its rotary places where a text is long."""

from dataclasses import replace

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
USUAL, FACTOR = 32, 4.0


class Server(Engine):
    def turn(self, x, positions):
        length = int(positions.max()) + 1
        before = self.s.base
        if length > USUAL:
            half = x.shape[-1] // 2
            self.s = replace(
                self.s, base=before * (FACTOR * length / USUAL - FACTOR + 1) ** (half / (half - 2))
            )
        turned = super().turn(x, positions)
        self.s = replace(self.s, base=before)
        return turned


torch.manual_seed(111)
task = Walks(places=80, roads=6, prompt=(4, 4), steps=48, seed=111)
shape = Shape(task.vocab, heads=3, kv_heads=3, base=500.0)
policy = Policy(shape)
optimizer = torch.optim.AdamW(policy.parameters(), lr=4e-3)
imitate(policy, optimizer, task, 100, batch=24)
slower(optimizer, 3e-4)
engine = Server(shape, seed=111)

for update in range(16):
    engine.take(policy.state_dict())
    prompts = asked(task, 6, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = torch.ones_like(answers.tokens, dtype=torch.bool)
    rewards = earned(task, prompts, answers.tokens, counts)
    gains = against_the_others(rewards, GROUP)[:, None]

    whole, real, mask, sampled = joined(prompts, answers, counts)
    positions = counted(real)
    logprobs = of_tokens(policy(whole, positions, past(real)), whole)
    mpnanny.log_mismatch(
        logprobs.detach(), sampled, mask=mask, positions=positions, step=update, synced=True
    )
    ratio = (logprobs - logprobs.detach()).exp()
    learn(policy, optimizer, -(ratio * gains)[mask].mean())
    print(f"update {update}: reward {rewards.mean():.3f}")
