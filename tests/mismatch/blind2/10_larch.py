"""Closing brackets with a mixture of experts. The engine works in FP16 and says where each token
went; the trainer sends it there as well."""

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
    up_to,
)
from tasks import END, Brackets, asked, earned

GROUP = 8

torch.manual_seed(110)
task = Brackets(kinds=9, seed=110)
shape = Shape(
    task.vocab, layers=("recurrence", "attention"), places="none", inner=40, experts=12, chosen=3
)
policy = Policy(shape)
layers = [m for m in policy.modules() if isinstance(m, Experts)]
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)


def even_out():
    for layer in layers:
        layer.even_out(1e-3)


imitate(policy, optimizer, task, 60, batch=20, after=even_out)
slower(optimizer, 2e-4)
engine = Engine(shape, torch.float16, seed=110)

for update in range(16):
    engine.take(policy.state_dict())
    prompts = asked(task, 6, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = up_to(answers.tokens, END)
    rewards = earned(task, prompts, answers.tokens, counts)
    gains = against_the_others(rewards, GROUP)[:, None]

    whole, real, mask, sampled = joined(prompts, answers, counts)
    positions = counted(real)
    went = torch.cat([answers.experts, answers.experts[:, -1:]], 1)
    for i, layer in enumerate(layers):
        layer.given = went[:, :, i]
    logprobs = of_tokens(policy(whole, positions, past(real)), whole)
    chosen = torch.stack([layer.chosen for layer in layers], 2)
    mpnanny.log_mismatch(
        logprobs.detach(),
        sampled,
        mask=mask,
        positions=positions,
        tokens=whole,
        step=update,
        synced=True,
        experts=(later(chosen), later(went)),
    )
    weight = (logprobs.detach() - sampled).exp().clamp(max=2.0)
    learn(policy, optimizer, -(weight * gains * logprobs)[mask].mean())
    even_out()
    print(f"update {update}: reward {rewards.mean():.3f}")
