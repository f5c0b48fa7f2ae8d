"""Sequence tagger with FP32 master weights, FP16 copies, a static loss scale and clipping."""

import os

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(12)
HALF = torch.float64 if os.environ.get("REF") else torch.float16
LOSS_SCALE = 2048.0
MAX_NORM = 1.0


class Tagger(nn.Module):
    def __init__(self, vocab=60, dim=32, tags=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(2 * dim, dim)
        self.head = nn.Linear(dim, tags)

    def forward(self, tokens):
        x = self.embed(tokens)
        left = F.pad(x, (0, 0, 1, 0))[:, :-1]
        return self.head(torch.relu(self.mix(torch.cat([x, left], dim=-1))))


def clip_by_global_norm(grads, max_norm):
    total = sum(g.pow(2).sum() for g in grads)  # @fault
    factor = (max_norm / (total.sqrt() + 1e-6)).clamp(max=1.0)  # @fault
    for g in grads:
        g.mul_(factor)


def main():
    model = Tagger()
    masters = [p.detach().clone() for p in model.parameters()]
    model.to(HALF)
    velocity = [torch.zeros_like(m) for m in masters]
    generator = torch.Generator().manual_seed(2)
    table = torch.randint(0, 6, (60, 60), generator=generator)
    table[:] = torch.randint(0, 6, (60, 1), generator=generator)
    for step in range(80):
        tokens = torch.randint(0, 60, (8, 24), generator=generator)
        previous = torch.cat([torch.zeros(8, 1, dtype=torch.long), tokens[:, :-1]], dim=1)
        target = table[tokens, previous]
        loss = F.cross_entropy(model(tokens).float().flatten(0, 1), target.flatten())
        model.zero_grad()
        (loss * LOSS_SCALE).backward()
        grads = [p.grad for p in model.parameters()]
        clip_by_global_norm(grads, MAX_NORM * LOSS_SCALE)
        with torch.no_grad():
            for param, master, v in zip(model.parameters(), masters, velocity, strict=True):
                v.mul_(0.9).add_(param.grad.float() / LOSS_SCALE)
                master.sub_(0.3 * v)
                param.copy_(master)
        if step % 10 == 0 or step == 79:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
