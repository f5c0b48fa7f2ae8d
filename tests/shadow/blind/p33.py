"""Image-like classification: BF16 autocast, accumulation, clipping, dropout, half metrics."""

import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(211)
MIXED = not os.environ.get("REF")
METRIC = torch.bfloat16 if MIXED else torch.float64


class ConvNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.GELU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.GroupNorm(4, 16),
            nn.GELU(),
            nn.AdaptiveAvgPool2d(2),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, classes))

    def forward(self, x):
        return self.head(self.features(x))


class Module:
    """Training, optimizer and metrics in the manner of a trainer framework."""

    def __init__(self):
        self.net = ConvNet()
        self.patterns = torch.randn(5, 1, 12, 12)
        decay = [p for p in self.net.parameters() if p.ndim > 1]
        plain = [p for p in self.net.parameters() if p.ndim <= 1]
        groups = [{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-2)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.factor)
        self.metrics = {}

    @staticmethod
    def factor(step):
        return min(1.0, (step + 1) / 8) * 0.5 * (1 + math.cos(math.pi * min(step, 70) / 70))

    def batch(self, size=24):
        label = torch.randint(5, (size,))
        return self.patterns[label] + 1.6 * torch.randn(size, 1, 12, 12), label

    def training_step(self, images, label):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=MIXED):
            logits = self.net(images)
        loss = F.cross_entropy(logits.float(), label, label_smoothing=0.05)
        hit = (logits.detach().argmax(dim=1) == label).to(METRIC).mean()
        entropy = torch.special.entr(logits.detach().to(METRIC).softmax(dim=1)).sum(dim=1).mean()
        self.metrics = {"hit": hit.item(), "entropy": entropy.item()}
        return loss

    def fit(self, steps, accumulate=2):
        history = []
        for step in range(steps):
            self.optimizer.zero_grad()
            for _ in range(accumulate):
                loss = self.training_step(*self.batch())
                (loss / accumulate).backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            history.append(loss.item())
            if step % 10 == 0:
                shown = " ".join(f"{name} {value:.3f}" for name, value in self.metrics.items())
                print(f"step {step} loss {loss.item():.4f} {shown}")
        return sum(history[-15:]) / 15


print(f"mean of the last 15 losses {Module().fit(70):.4f}")
