"""GRPO on stories of different length, packed into rows for the trainer, four minibatches an update. The log-probs of the whole
batch are taken before the first of them. The engine runs in FP16."""

import random

import mpnanny
import torch
from engine import Engine
from policy import GPT, Config, clipped_loss, group_advantages, pad_left, shift, token_logprobs, until_end, warm_up
from tasks import EOS, Stories, ask, rewards_of

GROUP = 8
ROW = 112


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


torch.manual_seed(11)
lengths = random.Random(11)
task = Stories(words=160, prompt=8, answer=32, seed=11, end=0.05)
config = Config(vocab=task.vocab, width=64, layers=2)
policy = GPT(config)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
warm_up(policy, optimizer, task, 120)
for group in optimizer.param_groups:
    group["lr"] = 3e-4
engine = Engine(config, dtype=torch.float16, seed=11)

for update in range(14):
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

    same = packed["documents"][:, :, None] == packed["documents"][:, None, :]
    attention = same & torch.ones(ROW, ROW, dtype=torch.bool).tril()
    with torch.no_grad():
        hidden = policy.hidden(packed["tokens"], packed["positions"], attention)
        old = token_logprobs(policy.head(hidden), packed["tokens"])
    # without the padding, all rows one behind the other, documents counted through
    filled = packed["documents"] >= 0
    documents = (packed["positions"][filled] == 0).cumsum(0) - 1
    mpnanny.log_mismatch(
        old[filled], packed["logprobs"][filled], mask=packed["mask"][filled], positions=packed["positions"][filled],
        documents=documents, tokens=packed["tokens"][filled], step=update, synced=True, hidden=shift(hidden)[filled],
        head=policy.head.weight.detach(),
    )
    losses = []
    for rows in torch.arange(len(old)).chunk(4):
        logits = policy(packed["tokens"][rows], packed["positions"][rows], attention[rows])
        logprobs = token_logprobs(logits, packed["tokens"][rows])
        loss = clipped_loss(logprobs, old[rows], packed["advantages"][rows], packed["mask"][rows])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        losses.append(round(loss.item(), 4))
    print(f"update {update}: rows {len(old)} reward {rewards.mean():.3f} losses {losses}")
