"""Instruction tuning of a small recurrent language model with gradient accumulation."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(2)
if os.environ.get("REF"):
    torch.set_default_dtype(torch.float64)
VOCAB, CONTEXT, MICRO, ACCUMULATE, STEPS = 32, 24, 2, 2, 90
IGNORE = -100


def example(generator):
    length = int(torch.randint(4, 12, (1,), generator=generator))
    if torch.randint(100, (1,), generator=generator) < 10:
        length += 19
    prompt = torch.randint(2, VOCAB, (length,), generator=generator)
    answer = (prompt[-1] - 1 + torch.arange(8)) % (VOCAB - 2) + 2
    return prompt, answer


def collate(examples):
    tokens = torch.zeros(len(examples), CONTEXT, dtype=torch.long)
    labels = torch.full((len(examples), CONTEXT), IGNORE)
    for row, (prompt, answer) in enumerate(examples):
        text = torch.cat([prompt, torch.tensor([1]), answer])[:CONTEXT]
        start = len(prompt) + 1
        tokens[row, : len(text)] = text
        labels[row, start : len(text)] = text[start:]
    return tokens, labels


class Model(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embed(tokens))
        return self.head(hidden)


def language_loss(logits, labels):
    target = labels[:, 1:].flatten()
    kept = target != IGNORE
    scores = F.log_softmax(logits[:, :-1].flatten(0, 1), -1)
    picked = scores.gather(1, target.clamp(min=0).unsqueeze(1)).squeeze(1)
    return -(picked * kept).sum() / kept.sum()  # @fault


generator = torch.Generator().manual_seed(47)
model = Model()
opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)

for step in range(STEPS):
    opt.zero_grad()
    total = 0.0
    for _ in range(ACCUMULATE):
        tokens, labels = collate([example(generator) for _ in range(MICRO)])
        loss = language_loss(model(tokens), labels) / ACCUMULATE
        loss.backward()
        total += loss.item()
    opt.step()
    schedule.step()
    if step % 10 == 0 or step == STEPS - 1:
        print(f"step {step} loss {total:.4f}")
