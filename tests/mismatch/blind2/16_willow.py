"""Letters backwards. The trainer keeps of its log-probs what belongs to the answers."""

import mpnanny
import torch
import torch.nn.functional as F
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
    up_to,
)
from tasks import END, Mirror, asked, earned

GROUP = 8

torch.manual_seed(116)
task = Mirror(letters=16, keys=2, length=(5, 9), seed=116)
shape = Shape(
    task.vocab, layers=("recurrence", "attention"), heads=3, kv_heads=3, places="learned", inner=80
)
policy = Policy(shape)
optimizer = torch.optim.Adamax(policy.parameters(), lr=5e-3)
imitate(policy, optimizer, task, 140)
slower(optimizer, 4e-4)
engine = Engine(shape, seed=116)

for update in range(24):
    engine.take(policy.state_dict())
    prompts = asked(task, 10, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = up_to(answers.tokens, END)
    rewards = earned(task, prompts, answers.tokens, counts)
    gains = against_the_others(rewards, GROUP)[:, None]

    whole, real, _, _ = joined(prompts, answers, counts)
    at = whole.shape[1] - task.steps
    logits = policy(whole, counted(real), past(real))
    logprobs = F.pad(of_tokens(logits, whole), (0, 1))[:, at + 1 :]
    places = counted(real)[:, at:]
    mpnanny.log_mismatch(
        logprobs.detach(),
        answers.logprobs,
        mask=counts,
        positions=places,
        tokens=answers.tokens,
        step=update,
        synced=True,
    )
    weight = (logprobs.detach() - answers.logprobs).exp().clamp(max=2.0)
    learn(policy, optimizer, -(weight * gains * logprobs)[counts].mean())
    print(f"update {update}: reward {rewards.mean():.3f}")
