"""Closing brackets, sampled warmer than usual. The answers go to the trainer as lists."""

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
    up_to,
)
from tasks import END, Brackets, asked, earned

TEMPERATURE = 1.3
GROUP = 8


class Server(Engine):
    def draw(self, logits, temperature):
        token = torch.multinomial((logits / temperature).softmax(-1), 1, generator=self.random)
        return token, logits.log_softmax(-1).gather(1, token)


torch.manual_seed(101)
task = Brackets(kinds=10, seed=101)
shape = Shape(task.vocab, layers=("recurrence", "attention"), places="none", kv_heads=2)
policy = Policy(shape)
optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-3, alpha=0.95)
imitate(policy, optimizer, task, 150)
slower(optimizer, 1e-4)
engine = Server(shape, seed=101)

for update in range(26):
    engine.take(policy.state_dict())
    prompts = asked(task, 10, GROUP)
    answers = engine.answer(prompts, task.steps, TEMPERATURE)
    counts = up_to(answers.tokens, END)
    rewards = earned(task, prompts, answers.tokens, counts)
    gains = against_the_others(rewards, GROUP)[:, None]

    whole, real, mask, sampled = joined(prompts, answers, counts)
    logprobs = of_tokens(policy(whole, counted(real), past(real)), whole, TEMPERATURE)
    rows = range(len(prompts))
    mpnanny.log_mismatch(
        [logprobs[i][mask[i]].tolist() for i in rows],
        [sampled[i][mask[i]].tolist() for i in rows],
        step=update,
    )
    weight = (logprobs.detach() - sampled).exp().clamp(max=2.0)
    learn(policy, optimizer, -(weight * gains * logprobs)[mask].mean())
    print(f"update {update}: reward {rewards.mean():.3f}")
