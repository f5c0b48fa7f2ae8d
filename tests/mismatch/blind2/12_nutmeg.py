"""Walks on a map, several of them in one row of the trainer, which goes through the row in one
run."""

import mpnanny
import torch
from engine import Engine
from policy import Policy, Shape, against_the_others, imitate, learn, of_tokens, past, slower, up_to
from tasks import END, Walks, asked, earned

GROUP = 8
PER_ROW = 4


def in_rows(prompts, answers, counts, gains):
    """PER_ROW documents one behind the other in each row; the end of the row is padding
    (document -1)"""
    rows = []
    for i in range(0, len(prompts), PER_ROW):
        row = []
        for d in range(i, i + PER_ROW):
            c = counts[d]
            said = zip(answers.tokens[d][c].tolist(), answers.logprobs[d][c].tolist(), strict=True)
            cells = [(t, 0.0, 0.0, False) for t in prompts[d]] + [
                (t, p, gains[d].item(), True) for t, p in said
            ]
            row += [(*cell, place, d - i) for place, cell in enumerate(cells)]
        rows.append(row)
    most = max(map(len, rows))
    rows = [row + [(0, 0.0, 0.0, False, 0, -1)] * (most - len(row)) for row in rows]
    return [torch.tensor([[cell[k] for cell in row] for row in rows]) for k in range(6)]


torch.manual_seed(112)
task = Walks(places=100, roads=6, prompt=(3, 6), steps=20, ends=0.08, seed=112)
shape = Shape(task.vocab, layers=("recurrence", "recurrence"), places="none", inner=80)
policy = Policy(shape)
optimizer = torch.optim.AdamW(policy.parameters(), lr=4e-3)
imitate(policy, optimizer, task, 110)
slower(optimizer, 3e-4)
engine = Engine(shape, seed=112)

for update in range(20):
    engine.take(policy.state_dict())
    prompts = asked(task, 8, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = up_to(answers.tokens, END)
    rewards = earned(task, prompts, answers.tokens, counts)
    tokens, sampled, gains, mask, positions, documents = in_rows(
        prompts, answers, counts, against_the_others(rewards, GROUP)
    )

    begins = torch.zeros_like(mask)
    begins[:, 0] = True
    logprobs = of_tokens(policy(tokens, positions, past(documents >= 0), begins), tokens)
    mpnanny.log_mismatch(
        logprobs.detach(),
        sampled,
        mask=mask,
        positions=positions,
        documents=documents,
        tokens=tokens,
        step=update,
        synced=True,
    )
    ratio = (logprobs - logprobs.detach()).exp()
    learn(policy, optimizer, -(ratio * gains)[mask].mean())
    print(f"update {update}: reward {rewards.mean():.3f}")
