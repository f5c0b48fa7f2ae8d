"""An FP16-autocast CNN with batch norm behind biased convolutions, scaled by a GradScaler."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(15)
REF = bool(os.environ.get("REF"))


def main():
    labels = torch.randint(0, 4, (512,))
    pattern = torch.randn(4, 1, 8, 8)
    images = pattern[labels] + torch.randn(512, 1, 8, 8)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 12, 3, stride=2, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(12 * 16, 4),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, enabled=not REF)
    tail = []
    for step in range(60):
        rows = torch.randint(0, 512, (48,))
        with torch.autocast("cpu", dtype=torch.float16, enabled=not REF):
            logits = model(images[rows])
        loss = nn.functional.cross_entropy(logits.float(), labels[rows])
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        tail = (tail + [loss.item()])[-10:]
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} scale {scaler.get_scale():g}")
    print(f"final loss {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
