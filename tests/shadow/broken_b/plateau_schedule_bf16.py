"""Full-batch regression whose learning rate follows the validation loss (reduce on plateau)."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(47)
HALF = torch.float64 if os.environ.get("REF") else torch.bfloat16
STEPS = 150


def main():
    generator = torch.Generator().manual_seed(53)
    readout = torch.randn(10, 8, generator=generator) / 10**0.5

    def draw(n):
        x = torch.randn(n, 10, generator=generator)
        return x, torch.relu(x @ readout).sum(1, keepdim=True)

    (x, y), (val_x, val_y) = draw(256), draw(256)
    model = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=2, threshold=1e-4
    )
    history = torch.zeros(STEPS, dtype=HALF)
    for step in range(STEPS):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            val_loss = (model(val_x) - val_y).square().mean()
        history[step] = val_loss  # @fault
        schedule.step(history[step].item())
        if step % 15 == 0 or step == STEPS - 1:
            rate = optimizer.param_groups[0]["lr"]
            print(f"step {step} loss {loss.item():.4f} val {history[step]:.4f} lr {rate:.2e}")


if __name__ == "__main__":
    main()
