"""Surface displacement from radar phase, pixel by pixel, under FP16 autocast."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(12)

AMP = not os.environ.get("REF")
SIZE, BATCH, STEPS = 48, 20, 60


class PhaseToDisplacement(nn.Module):
    """Predicts the displacement of every pixel from its 3x3 neighbourhood."""

    def __init__(self, width=12):
        super().__init__()
        self.body = nn.Linear(9, width)
        self.head = nn.Linear(width, 1)

    def forward(self, image):
        patches = F.unfold(image, 3, padding=1).transpose(1, 2)
        hidden = F.gelu(self.body(patches))
        return self.head(hidden).transpose(1, 2).view_as(image)  # @fault


def scenes(n):
    """Phase in radians, displacement in metres (a third of a millimetre or so)."""
    grid = torch.linspace(0, 1, SIZE)
    shift = torch.rand(n, 2, 1, 1) * 6.28
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    phase = torch.sin(6 * yy + shift[:, 0]) + torch.sin(5 * xx + shift[:, 1])
    phase = phase.unsqueeze(1)
    displacement = 3e-4 * phase
    return phase + 0.3 * torch.randn_like(phase), displacement


def main():
    model = PhaseToDisplacement()
    nn.init.zeros_(model.head.bias)
    nn.init.normal_(model.head.weight, std=1e-4)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    recent = []
    for step in range(STEPS):
        phase, displacement = scenes(BATCH)
        with torch.autocast("cpu", dtype=torch.float16, enabled=AMP):
            predicted = model(phase)
        loss = F.mse_loss(predicted.float(), displacement)
        optimizer.zero_grad()
        loss.backward()  # @fault
        optimizer.step()
        recent = recent[-9:] + [loss.item()]
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.3e}")
    average = sum(recent) / len(recent)
    explained = 1.0 - average / displacement.var().item()
    print(f"final loss {average:.3e} explained {explained:.3f}")


if __name__ == "__main__":
    main()
