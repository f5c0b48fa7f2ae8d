"""Trains one tagger on sentences of four corpora; the loss is the mean of the corpora's losses."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(3)

AUTOCAST = not os.environ.get("REF")
VOCAB, TAGS, LENGTH, CORPORA = 80, 9, 12, 4


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.rnn = nn.Linear(96, 64)
        self.out = nn.Linear(64, TAGS)

    def forward(self, words):
        x = self.embed(words)
        left = F.pad(x, (0, 0, 1, 0))[:, :-1]
        right = F.pad(x, (0, 0, 0, 1))[:, 1:]
        return self.out(F.relu(self.rnn(torch.cat([left, x, right], dim=-1))))


def batch(generator, size=24):
    words = torch.randint(0, VOCAB, (size, LENGTH), generator=generator)
    tags = (words + words.roll(1, dims=1)) % TAGS
    shares = torch.tensor([0.45, 0.30, 0.18, 0.07])
    corpus = torch.multinomial(shares, size, replacement=True, generator=generator)
    return words, tags, corpus


def corpus_loss(logits, tags, corpus):
    per_word = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), reduction="none")
    per_sentence = per_word.view(tags.shape).mean(dim=1)
    member = F.one_hot(corpus, CORPORA).to(per_sentence.dtype)
    totals = (member * per_sentence[:, None]).sum(dim=0)
    return (totals / member.sum(dim=0)).mean()  # @fault


def main():
    generator = torch.Generator().manual_seed(11)
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(60):
        words, tags, corpus = batch(generator)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=AUTOCAST):
            logits = model(words)
        loss = corpus_loss(logits.float(), tags, corpus)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
