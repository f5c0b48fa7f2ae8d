"""A hand-written LSTM that must remember one bit: its gates end up wide open or shut."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(7)
REF = bool(os.environ.get("REF"))


class LstmCell(nn.Module):
    def __init__(self, n_in, width):
        super().__init__()
        self.gates = nn.Linear(n_in + width, 4 * width)
        with torch.no_grad():
            self.gates.bias[width : 2 * width] = 6.0  # forget gate open from the start

    def forward(self, x, hidden, cell):
        i, f, g, o = self.gates(torch.cat([x, hidden], dim=-1)).float().chunk(4, dim=-1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell


class Latch(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.width = width
        self.cell = LstmCell(2, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        hidden = torch.zeros(x.shape[0], self.width)
        cell = torch.zeros(x.shape[0], self.width)
        outputs = []
        for t in range(x.shape[1]):
            hidden, cell = self.cell(x[:, t], hidden, cell)
            outputs.append(hidden)
        return self.head(torch.stack(outputs, dim=1)).squeeze(-1)


def batch(size, length=12):
    """Strong pulses say what to remember, the output is the sign of the last one."""
    fires = torch.rand(size, length) < 0.2
    fires[:, 0] = True
    bits = torch.where(torch.rand(size, length) < 0.5, -1.0, 1.0)
    state = torch.zeros(size)
    target = torch.empty(size, length)
    for t in range(length):
        state = torch.where(fires[:, t], bits[:, t], state)
        target[:, t] = (state > 0).float()
    x = torch.stack([fires.float() * 8.0, torch.where(fires, bits * 8.0, 0.0)], dim=-1)
    return x, target


def main():
    model = Latch()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    tail = []
    for step in range(120):
        x, target = batch(48)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
            logits = model(x)
        loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tail = (tail + [loss.item()])[-10:]
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
