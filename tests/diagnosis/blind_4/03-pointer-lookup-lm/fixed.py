import math
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
LENGTH, VOCAB, DIM = 768, 24, 64


class SinusoidalPositions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        freqs = torch.exp(-math.log(2000.0) * torch.arange(0, dim, 2) / dim)
        self.register_buffer("freqs", freqs)

    def forward(self, pos):
        ang = pos.float()[..., None] * self.freqs
        return torch.cat([ang.sin(), ang.cos()], dim=-1)


class PointerReader(nn.Module):
    """Reads out the token that stands at the requested position."""

    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, 32)
        self.pos = SinusoidalPositions(DIM)
        self.q = nn.Linear(DIM, DIM, bias=False)
        self.k = nn.Linear(DIM, DIM, bias=False)
        nn.init.eye_(self.q.weight)
        nn.init.eye_(self.k.weight)
        self.log_scale = nn.Parameter(torch.tensor(0.0))
        self.out = nn.Linear(32, VOCAB)

    def forward(self, tokens, where):
        positions = torch.arange(LENGTH, dtype=torch.float32)
        keys = self.k(self.pos(positions))
        query = self.q(self.pos(positions[where]))
        att = F.softmax(query @ keys.T * self.log_scale.exp(), dim=-1)
        mixed = torch.bmm(att[:, None, :], self.tok(tokens)).squeeze(1)
        return self.out(mixed)


def batch(n, gen):
    tokens = torch.randint(0, VOCAB, (n, LENGTH), generator=gen)
    where = torch.randint(0, LENGTH, (n,), generator=gen)
    return tokens, where, tokens[torch.arange(n), where]


model = PointerReader()
opt = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
gen = torch.Generator().manual_seed(1)
for it in range(200):
    tokens, where, y = batch(64, gen)
    loss = F.cross_entropy(model(tokens, where), y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    if it % 25 == 0:
        print(f"iter {it:4d} loss {loss.item():.4f}")

with torch.no_grad():
    tokens, where, y = batch(1000, gen)
    acc = (model(tokens, where).argmax(-1) == y).float().mean()
print(f"eval accuracy {acc.item():.4f}")
