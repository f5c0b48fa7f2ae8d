"""Walks on a map with a mixture of experts, whose load is kept even by a bias."""

import mpnanny
import torch
from engine import Engine
from policy import (
    Experts,
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

GROUP = 6


class Server(Engine):
    def choice(self, score, at):
        return score.topk(self.s.chosen, -1).indices


torch.manual_seed(107)
task = Walks(places=120, roads=6, prompt=(5, 5), steps=18, seed=107)
shape = Shape(task.vocab, inner=40, experts=10, chosen=2)
policy = Policy(shape)
layers = [m for m in policy.modules() if isinstance(m, Experts)]
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)


def even_out():
    for layer in layers:
        layer.even_out(3e-4)


imitate(policy, optimizer, task, 60, batch=20, after=even_out)
slower(optimizer, 3e-4)
engine = Server(shape, seed=107)

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
    # [batch, length, layers, k], at the place of the token that was predicted
    ours = later(torch.stack([layer.chosen for layer in layers], 2))
    theirs = later(torch.cat([answers.experts, answers.experts[:, -1:]], 1))
    mpnanny.log_mismatch(
        logprobs.detach(),
        sampled,
        mask=mask,
        positions=positions,
        tokens=whole,
        step=update,
        synced=True,
        experts=(ours, theirs),
    )
    ratio = (logprobs - logprobs.detach()).exp()
    learn(policy, optimizer, -(ratio * gains)[mask].mean())
    even_out()
    print(f"update {update}: reward {rewards.mean():.3f}")
