"""BF16 weights with an FP32 master copy that is copied down each step, and an EMA in FP32."""

import copy
import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(17)
REF = bool(os.environ.get("REF"))
DTYPE = torch.float32 if REF else torch.bfloat16


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(16, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1)
        )

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def main():
    inputs = torch.randn(1024, 16)
    targets = torch.sin(inputs[:, 0]) + inputs[:, 1] * inputs[:, 2]
    model = Net()
    masters = [p.detach().clone() for p in model.parameters()]
    average = copy.deepcopy(model)
    model.to(DTYPE)
    optimizer = torch.optim.AdamW(masters, lr=2e-3)
    for step in range(150):
        rows = torch.randint(0, 1024, (128,))
        loss = (model(inputs[rows].to(DTYPE)).float() - targets[rows]).square().mean()
        model.zero_grad(set_to_none=True)
        loss.backward()
        for master, p in zip(masters, model.parameters(), strict=True):
            master.grad = p.grad.float()
        optimizer.step()
        with torch.no_grad():
            for master, p, mean in zip(
                masters, model.parameters(), average.parameters(), strict=True
            ):
                p.copy_(master)
                mean.lerp_(p.float(), 0.02)
        if step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    with torch.no_grad():
        final = (model(inputs.to(DTYPE)).float() - targets).square().mean()
        averaged = (average(inputs) - targets).square().mean()
    print(f"final loss {final.item():.4f} averaged {averaged.item():.4f}")


if __name__ == "__main__":
    main()
