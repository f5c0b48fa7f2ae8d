"""Letters backwards. Trainer and engine work at the same time; weights go to the engine by a
queue, one set an update."""

from collections import deque

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
    up_to,
)
from tasks import END, Mirror, asked, earned

GROUP = 8
QUEUE = 3

torch.manual_seed(103)
task = Mirror(letters=14, keys=2, length=(4, 7), seed=103)
shape = Shape(
    task.vocab, layers=("attention", "attention"), kv_heads=4, places="learned", tied=True
)
policy = Policy(shape)
imitate(policy, torch.optim.Adam(policy.parameters(), lr=4e-3), task, 130)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.04, momentum=0.9)
engine = Engine(shape, seed=103)
queue = deque(maxlen=QUEUE)

for update in range(32):
    queue.append({name: x.clone() for name, x in policy.state_dict().items()})
    engine.take(queue[0])
    prompts = asked(task, 12, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = up_to(answers.tokens, END)
    rewards = earned(task, prompts, answers.tokens, counts)
    gains = against_the_others(rewards, GROUP)[:, None]

    whole, real, mask, sampled = joined(prompts, answers, counts)
    logprobs = of_tokens(policy(whole, counted(real), past(real)), whole)
    mpnanny.log_mismatch(logprobs.detach(), sampled, mask, step=update, synced=True)
    ratio = (logprobs - logprobs.detach()).exp()
    learn(policy, optimizer, -(ratio * gains)[mask].mean())
    print(f"update {update}: reward {rewards.mean():.3f}")
