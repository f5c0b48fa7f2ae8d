"""Attention over a padded list of notes that answers a query; the network runs in FP16."""

import math
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(5)

DTYPE = torch.float32 if os.environ.get("REF") else torch.float16
NOTES, WIDTH, CLASSES = 8, 32, 6


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, question, notes, present):
        query = self.query(question)[:, None]
        scores = (query * self.key(notes)).sum(dim=-1) / math.sqrt(WIDTH)
        scores = scores + (1.0 - present) * -1e9  # @fault
        weights = torch.softmax(scores, dim=-1)  # @fault
        answer = (weights[..., None] * self.value(notes)).sum(dim=1)
        return self.out(torch.cat([answer, question], dim=-1))


def batch(generator, size=32):
    question = torch.randn(size, WIDTH, generator=generator)
    notes = torch.randn(size, NOTES, WIDTH, generator=generator)
    count = torch.randint(1, NOTES + 1, (size,), generator=generator)
    # A few questions come without any note.
    count = count * (torch.rand(size, generator=generator) > 0.004)
    present = (torch.arange(NOTES)[None] < count[:, None]).to(DTYPE)
    notes[:, 0, :CLASSES] += 2 * question[:, :CLASSES]
    label = (notes[:, 0, :CLASSES] + question[:, :CLASSES]).argmax(dim=1)
    return question.to(DTYPE), notes.to(DTYPE), present, label


def main():
    generator = torch.Generator().manual_seed(21)
    model = Reader().to(DTYPE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(60):
        question, notes, present, label = batch(generator)
        logits = model(question, notes, present)
        loss = nn.functional.cross_entropy(logits.float(), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
