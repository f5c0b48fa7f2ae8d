"""GRPO on stories of different length, packed into rows of at most 120 tokens for the trainer."""

import random

import mpnanny
import torch
from engine import Engine
from policy import GPT, Config, clipped_loss, group_advantages, pad_left, shift, token_logprobs, until_end, warm_up
from tasks import EOS, Stories, ask, rewards_of

GROUP = 8
ROW = 120


def pack(samples):
    """samples: lists of (token, counts, logprob, advantage). First fit; returns tensors [rows, ROW]."""
    rows = []
    for sample in sorted(samples, key=len, reverse=True):
        for row in rows:
            if sum(map(len, row)) + len(sample) <= ROW:
                row.append(sample)
                break
        else:
            rows.append([sample])
    shape = (len(rows), ROW)
    out = {
        "tokens": torch.zeros(shape, dtype=torch.long), "mask": torch.zeros(shape, dtype=torch.bool),
        "logprobs": torch.zeros(shape), "advantages": torch.zeros(shape),
        "positions": torch.zeros(shape, dtype=torch.long), "documents": torch.full(shape, -1),
    }
    for r, row in enumerate(rows):
        at = 0
        for document, sample in enumerate(row):
            here = (r, slice(at, at + len(sample)))
            for name, values in zip(("tokens", "mask", "logprobs", "advantages"), zip(*sample)):
                out[name][here] = torch.tensor(values, dtype=out[name].dtype)
            out["positions"][here] = torch.arange(len(sample))
            out["documents"][here] = document
            at += len(sample)
    return out


torch.manual_seed(3)
lengths = random.Random(3)
task = Stories(words=120, prompt=8, answer=40, seed=3, end=0.05)
config = Config(vocab=task.vocab, width=64, layers=2)
policy = GPT(config)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
warm_up(policy, optimizer, task, 120)
for group in optimizer.param_groups:
    group["lr"] = 3e-4
engine = Engine(config, seed=3)

for update in range(18):
    engine.load(policy.state_dict())
    length = lengths.choice([6, 8, 12])
    prompts = [p for p, _ in task.examples(8, prompt=length) for _ in range(GROUP)]
    tokens, keep = pad_left(prompts)
    rollout = engine.generate(tokens, keep, task.answer)
    mask = until_end(rollout.tokens, EOS)
    rewards = rewards_of(task, prompts, rollout.tokens, mask)
    advantages = group_advantages(rewards, GROUP).tolist()

    samples = []
    for i, prompt in enumerate(prompts):
        answer = rollout.tokens[i][mask[i]].tolist()
        values = [0.0] * len(prompt) + rollout.logprobs[i][mask[i]].tolist()
        counts = [False] * len(prompt) + [True] * len(answer)
        samples.append(list(zip(prompt + answer, counts, values, [advantages[i]] * len(counts))))
    packed = pack(samples)

    filled = packed["documents"] >= 0
    lower = torch.ones(ROW, ROW, dtype=torch.bool).tril()
    attention = (lower & filled[:, None, :]) | torch.eye(ROW, dtype=torch.bool)
    hidden = policy.hidden(packed["tokens"], packed["positions"], attention)
    logprobs = token_logprobs(policy.head(hidden), packed["tokens"])
    mpnanny.log_mismatch(
        logprobs.detach(), packed["logprobs"], mask=packed["mask"], positions=packed["positions"],
        documents=packed["documents"], tokens=packed["tokens"], step=update, synced=True,
        hidden=shift(hidden.detach()), head=policy.head.weight.detach(),
    )
    loss = clipped_loss(logprobs, logprobs.detach(), packed["advantages"], packed["mask"])
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    print(f"update {update}: rows {len(filled)} reward {rewards.mean():.3f} loss {loss.item():+.4f}")
