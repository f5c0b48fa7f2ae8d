"""Hidden Markov model fitted by gradient ascent on the likelihood of symbol sequences."""

import os

import torch

torch.set_num_threads(1)
torch.manual_seed(71)
REAL = torch.float64 if os.environ.get("REF") else torch.float32

STATES, SYMBOLS = 4, 40


def simulate(count, length):
    stay = torch.rand(count, length) < 0.85
    state = torch.randint(STATES, (count,))
    symbols = []
    for t in range(length):
        state = torch.where(stay[:, t], state, torch.randint(STATES, (count,)))
        symbols.append(state * (SYMBOLS // STATES) + torch.randint(SYMBOLS // STATES, (count,)))
    return torch.stack(symbols, dim=1)


def likelihood(start, move, emit, symbols):
    belief = start * emit[:, symbols[:, 0]].t()
    for t in range(1, symbols.shape[1]):
        belief = (belief @ move) * emit[:, symbols[:, t]].t()  # @fault
    return belief.sum(dim=1)


params = {
    "start": torch.zeros(STATES, dtype=REAL),
    "move": (2.0 * torch.eye(STATES)).to(REAL),
    "emit": (0.3 * torch.randn(STATES, SYMBOLS)).to(REAL),
}
for p in params.values():
    p.requires_grad_()
optimizer = torch.optim.Adam(params.values(), lr=0.08)

for step in range(60):
    symbols = simulate(48, length=6 + step // 2)
    tables = {name: p.softmax(dim=-1) for name, p in params.items()}
    loss = -likelihood(**tables, symbols=symbols).log().mean() / symbols.shape[1]  # @fault
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 6 == 0:
        print(f"step {step:2d} length {symbols.shape[1]:2d} nats per symbol {loss.item():.4f}")
print(f"nats per symbol at the end {loss.item():.4f}")
