"""Regression with a learning rate that is reduced when the validation loss stops improving."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import ReduceLROnPlateau

torch.set_num_threads(1)
torch.manual_seed(53)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16


class Trainer:
    def __init__(self, net, train, valid, lr=1.2e-2):
        self.net, self.train, self.valid = net, train, valid
        self.optimizer = torch.optim.Adam(net.parameters(), lr=lr)
        self.plateau = ReduceLROnPlateau(self.optimizer, factor=0.2, patience=0, threshold=1e-3)
        self.mixed = DTYPE is torch.bfloat16

    def predict(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.mixed):
            return self.net(x).squeeze(-1)

    def training_step(self, rows):
        x, y = self.train[0][rows], self.train[1][rows]
        loss = F.smooth_l1_loss(self.predict(x).float(), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def validate(self):
        x, y = self.valid
        errors = F.smooth_l1_loss(self.predict(x).float(), y, reduction="none").mean(dim=1)
        total = torch.zeros((), dtype=DTYPE)
        for error in errors:
            total += error  # @fault
        return total.item() / len(errors)

    def fit(self, epochs, steps):
        for epoch in range(epochs):
            losses = [self.training_step(torch.randint(900, (64,))) for _ in range(steps)]
            score = self.validate()
            self.plateau.step(score)
            lr = self.optimizer.param_groups[0]["lr"]
            mean = sum(losses) / len(losses)
            print(f"epoch {epoch} train {mean:.4f} valid {score:.4f} lr {lr:g}")
        return mean


def target(x):
    return 4 * torch.sin(2 * x[..., 0]) * x[..., 1] + 3 * torch.cos(x[..., 2] - x[..., 3])


x_train, x_valid = torch.randn(900, 4), torch.randn(900, 4, 4)
net = nn.Sequential(nn.Linear(4, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))
trainer = Trainer(net, (x_train, target(x_train)), (x_valid, target(x_valid)))
final = trainer.fit(epochs=14, steps=10)
print(f"training loss of the last epoch {final:.4f}")
