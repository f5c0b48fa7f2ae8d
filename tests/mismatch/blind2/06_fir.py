"""Closing brackets, with a policy whose logits cannot grow beyond a bound."""

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
    up_to,
)
from tasks import END, Brackets, asked, earned

GROUP = 8


class Server(Engine):
    def logits(self, hidden):
        return hidden.float() @ self.w["head.weight"].float().T


torch.manual_seed(106)
task = Brackets(kinds=12, length=(6, 14), seed=106)
shape = Shape(task.vocab, width=56, heads=7, kv_heads=1, inner=80, cap=8.0)
policy = Policy(shape)
optimizer = torch.optim.NAdam(policy.parameters(), lr=3e-3)
imitate(policy, optimizer, task, 130)
slower(optimizer, 2e-4)
engine = Server(shape, seed=106)

for update in range(24):
    engine.take(policy.state_dict())
    prompts = asked(task, 10, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = up_to(answers.tokens, END)
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
    weight = (logprobs.detach() - sampled).exp().clamp(max=2.0)
    learn(policy, optimizer, -(weight * gains * logprobs)[mask].mean())
    print(f"update {update}: reward {rewards.mean():.3f}")
