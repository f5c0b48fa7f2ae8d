"""Walks on a map. The engine gets new weights every third update and the loss corrects for it:
the trainer keeps a copy of what the engine has, and log-probs of that copy stand below the line
of the ratio. Rows are packed, and handed over flat."""

import copy

import mpnanny
import torch
from engine import Engine
from policy import (
    Policy,
    Shape,
    against_the_others,
    imitate,
    later,
    learn,
    of_tokens,
    past,
    slower,
    up_to,
)
from tasks import END, Walks, asked, earned

GROUP = 8
PER_ROW = 4
EVERY = 3


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
            row += [(*cell, place, d) for place, cell in enumerate(cells)]
        rows.append(row)
    most = max(map(len, rows))
    rows = [row + [(0, 0.0, 0.0, False, 0, -1)] * (most - len(row)) for row in rows]
    return [torch.tensor([[cell[k] for cell in row] for row in rows]) for k in range(6)]


torch.manual_seed(114)
task = Walks(places=130, roads=6, prompt=(3, 6), steps=18, ends=0.06, seed=114)
shape = Shape(task.vocab, layers=("recurrence", "attention"), heads=4, kv_heads=2, inner=80)
policy = Policy(shape)
optimizer = torch.optim.AdamW(policy.parameters(), lr=4e-3)
imitate(policy, optimizer, task, 90)
slower(optimizer, 2e-3)
engine = Engine(shape, seed=114)

for update in range(21):
    if update % EVERY == 0:
        engine.take(policy.state_dict())
        behind = copy.deepcopy(policy)
    prompts = asked(task, 8, GROUP)
    answers = engine.answer(prompts, task.steps)
    counts = up_to(answers.tokens, END)
    rewards = earned(task, prompts, answers.tokens, counts)
    tokens, sampled, gains, mask, positions, documents = in_rows(
        prompts, answers, counts, against_the_others(rewards, GROUP)
    )
    seen = past(documents >= 0) & (documents[:, :, None] == documents[:, None, :])

    with torch.no_grad():
        hidden = behind.hidden(tokens, positions, seen)
        old = of_tokens(behind.logits(hidden), tokens)
    real = documents >= 0
    mpnanny.log_mismatch(
        old[real],
        sampled[real],
        mask=mask[real],
        positions=positions[real],
        documents=documents[real],
        tokens=tokens[real],
        step=update,
        synced=update % EVERY == 0,
        hidden=later(hidden)[real],
        head=behind.head.weight.detach(),
    )
    logprobs = of_tokens(policy(tokens, positions, seen), tokens)
    ratio = (logprobs - old).exp()
    gain = torch.minimum(ratio * gains, ratio.clamp(0.8, 1.25) * gains)
    learn(policy, optimizer, -gain[mask].mean())
    off = (logprobs - old)[mask].abs().mean()
    print(f"update {update}: reward {rewards.mean():.3f} off policy {off:.4f}")
