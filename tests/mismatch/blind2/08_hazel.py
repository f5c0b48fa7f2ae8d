"""Walks on a map, from scratch. The prompts differ in length and the trainer pads them on the
left."""

import mpnanny
import torch
from engine import Engine
from policy import Policy, Shape, against_the_others, joined, learn, of_tokens, past, up_to
from tasks import END, Walks, asked, earned

GROUP = 10

torch.manual_seed(108)
task = Walks(places=110, roads=12, prompt=(2, 14), steps=16, ends=0.03, seed=108)
shape = Shape(task.vocab, heads=6, kv_heads=2, places="learned", longest=64)
policy = Policy(shape)
optimizer = torch.optim.Adagrad(policy.parameters(), lr=8e-3)
engine = Engine(shape, seed=108)

for update in range(30):
    engine.take(policy.state_dict())
    prompts = asked(task, 8, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = up_to(answers.tokens, END)
    rewards = earned(task, prompts, answers.tokens, counts)
    gains = against_the_others(rewards, GROUP)[:, None]

    whole, real, mask, sampled = joined(prompts, answers, counts)
    positions = torch.arange(whole.shape[1]).expand_as(whole)
    logprobs = of_tokens(policy(whole, positions, past(real)), whole)
    mpnanny.log_mismatch(
        logprobs.detach(), sampled, mask=mask, tokens=whole, step=update, synced=True
    )
    ratio = (logprobs - logprobs.detach()).exp()
    learn(policy, optimizer, -(ratio * gains)[mask].mean())
    print(f"update {update}: reward {rewards.mean():.3f}")
