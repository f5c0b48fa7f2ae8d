"""Warm restarts with gradient accumulation, clipping and a checkpoint that is loaded half-way."""

import io
import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(110)
DTYPE = torch.float64 if os.environ.get("REF") else torch.float32


def dataset(n):
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(n, 10, generator=generator, dtype=torch.float64)
    mix = torch.randn(10, 3, generator=generator, dtype=torch.float64) / 3
    y = torch.sin(1.5 * x @ mix)
    y[::61] *= 12
    return TensorDataset(x.to(DTYPE), y.to(DTYPE))


class Trainer:
    def __init__(self, data, accumulate=4):
        self.model = nn.Sequential(
            nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)
        )
        self.model.to(DTYPE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.3, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
            self.optimizer, T_0=25, T_mult=2
        )
        self.data, self.accumulate, self.steps = data, accumulate, 0

    def state(self):
        return {k: getattr(self, k).state_dict() for k in ("model", "optimizer", "schedule")} | {
            "steps": self.steps
        }

    def load(self, saved):
        for k in ("model", "optimizer", "schedule"):
            getattr(self, k).load_state_dict(saved[k])
        self.steps = saved["steps"]

    def fit(self, until):
        while self.steps < until:
            generator = torch.Generator().manual_seed(self.steps)
            loader = DataLoader(
                self.data, batch_size=12, shuffle=True, drop_last=True, generator=generator
            )
            running = 0.0
            for i, (x, y) in enumerate(loader):
                loss = nn.functional.smooth_l1_loss(self.model(x), y, beta=0.1, reduction="sum")
                loss.backward()
                running += loss.item()
                if (i + 1) % self.accumulate == 0:
                    for p in self.model.parameters():
                        p.grad.div_(12 * self.accumulate)
                    norm = nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
                    self.optimizer.step()
                    self.optimizer.zero_grad(set_to_none=False)
                    self.schedule.step()
                    if self.steps % 10 == 0:
                        lr = self.schedule.get_last_lr()[0]
                        mean = running / (12 * self.accumulate)
                        print(f"step {self.steps} loss {mean:.4f} norm {norm:.2f} lr {lr:.4f}")
                    running = 0.0
                    self.steps += 1
                    if self.steps >= until:
                        return

    @torch.no_grad()
    def evaluate(self):
        x, y = self.data.tensors
        return (self.model(x) - y).abs().median().item()


def main():
    data = dataset(576)
    stream = io.BytesIO()
    first = Trainer(data)
    first.fit(60)
    torch.save(first.state(), stream)
    stream.seek(0)
    second = Trainer(data)
    second.load(torch.load(stream))
    second.fit(174)
    print(f"final {second.evaluate():.5f}")


if __name__ == "__main__":
    main()
