"""Walks on a small map, from scratch. The trainer has all states of a recurrence at once, the
engine one by one, and it adds up its logits in pieces."""

import mpnanny
import torch
from engine import Engine
from policy import Policy, Shape, against_the_others, counted, joined, learn, of_tokens, past
from tasks import Walks, asked, earned

TEMPERATURE = 1.2
GROUP = 16


class Server(Engine):
    def logits(self, hidden):
        w = self.w["head.weight"]
        return sum(hidden[:, i : i + 6] @ w[:, i : i + 6].T for i in range(w.shape[1] - 6, -1, -6))


torch.manual_seed(104)
task = Walks(places=60, roads=20, colours=3, prompt=(4, 10), steps=26, seed=104)
shape = Shape(task.vocab, layers=("recurrence",) * 3, places="none")
policy = Policy(shape)
optimizer = torch.optim.RMSprop(policy.parameters(), lr=2e-3)
engine = Server(shape, seed=104)

for update in range(36):
    engine.take(policy.state_dict())
    prompts = asked(task, 4, GROUP)
    answers = engine.answer(prompts, task.steps, TEMPERATURE)
    counts = torch.ones_like(answers.tokens, dtype=torch.bool)
    rewards = earned(task, prompts, answers.tokens, counts)
    gains = against_the_others(rewards, GROUP)[:, None]

    whole, real, mask, sampled = joined(prompts, answers, counts)
    logprobs = of_tokens(policy(whole, counted(real), past(real)), whole, TEMPERATURE)
    mpnanny.log_mismatch(logprobs.detach(), sampled, mask)
    ratio = (logprobs - sampled).exp()
    gain = torch.minimum(ratio * gains, ratio.clamp(0.8, 1.25) * gains)
    learn(policy, optimizer, -gain[mask].mean())
    print(f"update {update}: reward {rewards.mean():.3f}")
