"""Linear attention with a gate that lets the past fade; computed as one masked matrix product."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(2)

DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16
LENGTH, WIDTH = 256, 16


class GatedDecay(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(2, 1)
        self.value = nn.Linear(2, WIDTH)
        self.out = nn.Linear(WIDTH, 1)
        keep = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        self.register_buffer("future", ~keep, persistent=False)

    def forward(self, x):
        log_decay = nn.functional.logsigmoid(self.gate(x) + 1.5).squeeze(-1)
        total = torch.cumsum(log_decay, dim=1)  # @fault
        between = total[:, :, None] - total[:, None, :]  # @fault
        weight = between.masked_fill(self.future, float("-inf")).exp()
        return self.out(weight @ self.value(x)).squeeze(-1)


def batch(size=3):
    """The target is a trace of the first channel that fades fast where the second is set."""
    level = torch.randn(size, LENGTH)
    reset = (torch.rand(size, LENGTH) < 0.1).float()
    fade = torch.where(reset > 0, 0.2, 0.75)
    trace, state = [], torch.zeros(size)
    for t in range(LENGTH):
        state = fade[:, t] * state + level[:, t]
        trace.append(state)
    return torch.stack([level, reset], dim=-1).to(DTYPE), torch.stack(trace, dim=1)


def main():
    model = GatedDecay().to(DTYPE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.04)
    for step in range(80):
        x, trace = batch()
        loss = nn.functional.mse_loss(model(x).float(), trace)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")
    with torch.no_grad():
        x, trace = batch(12)
        error = (model(x).float() - trace).pow(2)
    early, late = error[:, :48].mean().item(), error[:, -48:].mean().item()
    print(f"final loss {loss.item():.4f} early {early:.4f} late {late:.4f}")


if __name__ == "__main__":
    main()
