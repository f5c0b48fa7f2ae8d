"""Predicts the time to a machine's next message from the gaps between its last messages."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(9)

DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
EVENTS, HISTORY = 33, 8
FIRST = 1_712_000_000


def message_times(size=48):
    """Unix seconds: every machine sends in a rhythm of three gaps of its own."""
    rhythm = 4 + 40 * torch.rand(size, 3)
    offset = torch.randint(0, 3, (size, 1))
    turn = (torch.arange(EVENTS)[None] + offset) % 3
    gaps = rhythm.gather(1, turn) * (0.95 + 0.1 * torch.rand(size, EVENTS))
    begin = FIRST + torch.randint(0, 86400 * 30, (size, 1))
    return begin + gaps.round().long().cumsum(dim=1)


def log_gaps(times):
    seconds = times.to(DTYPE)  # @fault
    return torch.log1p(seconds[:, 1:] - seconds[:, :-1])  # @fault


class NextGap(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(HISTORY, 48), nn.Tanh(), nn.Linear(48, 1))

    def forward(self, history):
        return self.layers(history - 3.0).squeeze(-1) + 3.0


def examples(times):
    gaps = log_gaps(times).unfold(1, HISTORY + 1, 1)
    return gaps[..., :HISTORY], gaps[..., HISTORY]


def main():
    model = NextGap().to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(120):
        history, target = examples(message_times())
        loss = nn.functional.huber_loss(model(history), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    distinct = target.detach().unique().numel()
    print(f"final loss {loss.item():.4f} distinct targets {distinct}")


if __name__ == "__main__":
    main()
