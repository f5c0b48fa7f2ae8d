"""A regression run that is interrupted, saved and continued from its checkpoint."""

import io
import os

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(24)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


def build():
    return nn.Sequential(
        nn.Linear(14, 80), nn.SiLU(), nn.Linear(80, 80), nn.SiLU(), nn.Linear(80, 2)
    ).to(DTYPE)


def batches(seed, n):
    generator = torch.Generator().manual_seed(99)
    mix = torch.randn(14, 2, generator=generator, dtype=torch.float64) / 4
    generator.manual_seed(seed)
    for _ in range(n):
        x = torch.randn(64, 14, generator=generator, dtype=torch.float64)
        yield x.to(DTYPE), torch.sin(x @ mix).to(DTYPE)


def save(stream, model, optimizer, step):
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, stream
    )


def resume(stream, optimizer):
    stream.seek(0)
    saved = torch.load(stream)
    model = build()  # @fault
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])  # @fault
    return model, saved["step"]


def train(model, optimizer, seed, first, steps):
    total = 0.0
    for step, (x, y) in enumerate(batches(seed, steps), start=first):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()  # @fault
        total += loss.item() if step >= first + steps - 10 else 0.0
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    return total / 10


def main():
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    stream = io.BytesIO()
    before = train(model, optimizer, seed=1, first=0, steps=45)
    save(stream, model, optimizer, 45)
    model, start = resume(stream, optimizer)
    after = train(model, optimizer, seed=2, first=start, steps=80)
    print(f"final {after:.5f} before the checkpoint {before:.5f}")


if __name__ == "__main__":
    main()
