"""Fits a hidden Markov model to symbol sequences of different lengths by gradient descent."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)

DTYPE = torch.float64 if os.environ.get("REF") else torch.float32
STATES, SYMBOLS, LONGEST = 4, 12, 90


class HiddenMarkov(nn.Module):
    def __init__(self):
        super().__init__()
        self.initial = nn.Parameter(torch.zeros(STATES))
        self.transition = nn.Parameter(torch.randn(STATES, STATES))
        self.emission = nn.Parameter(0.5 * torch.randn(STATES, SYMBOLS))

    def log_likelihood(self, symbols, lengths):
        transition = self.transition.softmax(dim=1)
        emission = self.emission.softmax(dim=1).t()[symbols]
        alpha = self.initial.softmax(dim=0) * emission[:, 0]
        last = alpha
        for t in range(1, symbols.shape[1]):
            alpha = (alpha @ transition) * emission[:, t]  # @fault
            last = torch.where((lengths > t)[:, None], alpha, last)
        likelihood = last.sum(dim=1)
        return torch.log(likelihood.clamp_min(torch.finfo(DTYPE).tiny))  # @fault


def sequences(size=24):
    lengths = torch.randint(20, LONGEST + 1, (size,))
    stay = 0.9
    state = torch.randint(0, STATES, (size,))
    symbols = torch.empty(size, LONGEST, dtype=torch.long)
    for t in range(LONGEST):
        jump = torch.rand(size) > stay
        state = torch.where(jump, torch.randint(0, STATES, (size,)), state)
        symbols[:, t] = (3 * state + torch.randint(0, 3, (size,))) % SYMBOLS
    return symbols, lengths


def main():
    model = HiddenMarkov().to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.08)
    symbols, lengths = sequences(160)
    for step in range(50):
        pick = torch.randint(0, len(lengths), (24,))
        score = model.log_likelihood(symbols[pick], lengths[pick])
        loss = -score.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    with torch.no_grad():
        long = lengths >= 60
        score = model.log_likelihood(symbols[long], lengths[long])
        stay = model.transition.softmax(dim=1).diagonal().mean()
    print(f"final loss {loss.item():.4f} long sequences {-score.mean():.3f} stay {stay:.3f}")


if __name__ == "__main__":
    main()
