"""Transfer to a new label set: convolutional features kept as they are, new FP16 head."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(41)
REF = bool(os.environ.get("REF"))


class Backbone(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.conv1 = nn.Conv1d(3, width, 5, stride=2)
        self.bn1 = nn.BatchNorm1d(width)
        self.conv2 = nn.Conv1d(width, width, 5, stride=2)
        self.bn2 = nn.BatchNorm1d(width)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x))).flatten(1)


class Transfer(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone.requires_grad_(False)
        self.head = nn.Sequential(nn.Linear(16 * 5, 32), nn.ReLU(), nn.Linear(32, classes))

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            z = self.backbone(x)
        return self.head(z)


def waves(n, gen, rates):
    y = torch.randint(0, len(rates), (n,), generator=gen)
    t = torch.linspace(0, 1, 32)
    phase = 6.28 * torch.rand(n, 3, 1, generator=gen)
    x = torch.sin(6.28 * rates[y][:, None, None] * t + phase)
    return x + 0.25 * torch.randn(n, 3, 32, generator=gen), y


def fit(model, opt, gen, rates, steps, scaler=None):
    for step in range(steps):
        x, y = waves(64, gen, rates)
        with torch.autocast("cpu", dtype=torch.float16, enabled=scaler is not None and not REF):
            loss = F.cross_entropy(model(x).float(), y)
        opt.zero_grad()
        if scaler is None:
            loss.backward()
            opt.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
        if step % 20 == 0 or step == steps - 1:
            print(f"step {step} loss {loss.item():.4f}")


def main():
    gen = torch.Generator().manual_seed(6)
    backbone = Backbone()
    source = nn.Sequential(backbone, nn.Linear(16 * 5, 4))
    source_rates = torch.tensor([1.0, 3.0, 5.0, 8.0])
    fit(source, torch.optim.Adam(source.parameters(), lr=4e-3), gen, source_rates, 60)

    rates = torch.tensor([2.0, 4.0, 7.0])
    model = Transfer(backbone, 3).train()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(model, opt, gen, rates, 80, torch.amp.GradScaler("cpu", init_scale=1024.0))
    model.eval()
    x, y = waves(1000, gen, rates)
    with torch.no_grad():
        acc = (model(x).argmax(-1) == y).double().mean().item()
    print(f"accuracy {acc:.4f}")


if __name__ == "__main__":
    main()
