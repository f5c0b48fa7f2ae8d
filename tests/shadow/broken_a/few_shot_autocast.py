"""Prototype network for few-shot classification under BF16 autocast."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(15)

AUTOCAST = not os.environ.get("REF")
FEATURES, WIDTH, WAYS, SHOTS, QUERIES = 32, 32, 5, 4, 8


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, WIDTH))

    def forward(self, x):
        return self.layers(x)


COMMON = 25 * torch.randn(FEATURES)


def episode():
    """Features of a frozen backbone, which share a large common part."""
    centre = 0.9 * torch.randn(WAYS, 1, FEATURES)
    samples = centre + torch.randn(WAYS, SHOTS + QUERIES, FEATURES) + COMMON
    return samples[:, :SHOTS], samples[:, SHOTS:]


def squared_distance(query, prototype):
    cross = query @ prototype.t()  # @fault
    return query.pow(2).sum(1)[:, None] + prototype.pow(2).sum(1)[None] - 2 * cross  # @fault


def main():
    model = Encoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    label = torch.arange(WAYS).repeat_interleave(QUERIES)

    def run():
        support, query = episode()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=AUTOCAST):
            prototype = model(support).mean(dim=1)
            distance = squared_distance(model(query).flatten(0, 1), prototype)
        return -distance.float() / WIDTH

    for step in range(100):
        logits = run()
        loss = nn.functional.cross_entropy(logits, label)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    with torch.no_grad():
        hits = [(run().argmax(1) == label).float().mean() for _ in range(50)]
    print(f"final loss {loss.item():.4f} accuracy {torch.stack(hits).mean():.3f}")


if __name__ == "__main__":
    main()
