"""A regression network is trained at full width first and then finished in half for speed."""

import os

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(15)
HALF = torch.float32 if os.environ.get("REF") else torch.float16


def make_batch(weight, n=48):
    x = torch.randn(n, 16)
    return x, torch.tanh(x @ weight) * 0.5


def run_phase(model, optimizer, weight, steps, dtype, start):
    total = 0.0
    for i in range(steps):
        x, y = make_batch(weight)
        optimizer.zero_grad()
        out = model(x.to(dtype))
        loss = (out.float() - y).square().mean()
        loss.backward()
        optimizer.step()  # @fault
        total += loss.item()
        if i % 10 == 0:
            print(f"step {start + i} loss {loss.item():.5f}")
    return total / steps


def main():
    weight = torch.randn(16, 4) / 4
    model = nn.Sequential(
        nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 4)
    )
    warm = torch.optim.Adam(model.parameters(), lr=2e-3)
    run_phase(model, warm, weight, 40, torch.float32, 0)
    model = model.to(HALF)
    finish = torch.optim.Adam(model.parameters(), lr=1e-3)  # @fault
    print(f"final {run_phase(model, finish, weight, 60, HALF, 40):.6f}")


if __name__ == "__main__":
    main()
