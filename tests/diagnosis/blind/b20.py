"""Recurrent classifier of symbol sequences with a nearest-prototype check between epochs."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(13)
if os.environ.get("REF"):
    torch.set_default_dtype(torch.float64)

CLASSES, SYMBOLS, LENGTH = 4, 8, 12


class SequenceModel(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.emb = nn.Embedding(SYMBOLS, 16)
        self.rnn = nn.GRU(16, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, CLASSES))

    @torch.no_grad()  # @fault
    def embed(self, tokens):
        """Unit vectors of whole sequences."""
        _, h = self.rnn(self.emb(tokens))
        return F.normalize(h[-1], dim=-1)

    def forward(self, tokens):
        return self.head(4.0 * self.embed(tokens))  # @fault


def draw(n, gen):
    tokens = torch.randint(0, SYMBOLS, (n, LENGTH), generator=gen)
    low = (tokens < 4).long()
    rises = (low[:, 1:] != low[:, :-1]).sum(1)
    return tokens, torch.bucketize(rises, torch.tensor([4, 5, 6]))


def prototype_accuracy(model, train, test):
    z, y = model.embed(train[0]), train[1]
    protos = torch.stack([z[y == c].mean(0) for c in range(CLASSES)])
    near = torch.cdist(model.embed(test[0]), protos).argmin(-1)
    return (near == test[1]).double().mean().item()


def main():
    gen = torch.Generator().manual_seed(3)
    train, test = draw(2048, gen), draw(1024, gen)
    model = SequenceModel()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(6):
        model.train()
        total = 0.0
        order = torch.randperm(len(train[0]), generator=gen)
        for part in order.split(64):
            loss = F.cross_entropy(model(train[0][part]), train[1][part])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(part) / len(order)
        model.eval()
        with torch.no_grad():
            acc = (model(test[0]).argmax(-1) == test[1]).double().mean().item()
        near = prototype_accuracy(model, train, test)
        print(f"epoch {epoch} loss {total:.4f} test {acc:.4f} prototypes {near:.4f}")


if __name__ == "__main__":
    main()
