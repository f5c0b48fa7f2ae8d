"""Mixed-precision classifier in a small trainer class: FP16 autocast, loss scaler, clipping."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
REF = bool(os.environ.get("REF"))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width)
        self.down = nn.Linear(width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Classifier(nn.Module):
    def __init__(self, features=20, width=48, classes=5):
        super().__init__()
        self.inp = nn.Linear(features, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


class Trainer:
    def __init__(self, model, lr=0.05, max_norm=1.0):
        self.model = model
        self.max_norm = max_norm
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**13)

    def train_step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16, enabled=not REF):
            logits = self.model(x)
        loss = F.cross_entropy(logits.float(), y)
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)  # @fault
        self.scaler.unscale_(self.optimizer)  # @fault
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()

    @torch.no_grad()
    def accuracy(self, x, y):
        return (self.model(x).argmax(-1) == y).double().mean().item()


def clusters(n, gen, centres):
    y = torch.randint(0, len(centres), (n,), generator=gen)
    x = centres[y] + torch.randn(n, centres.shape[1], generator=gen)
    return x, y


gen = torch.Generator().manual_seed(1)
centres = torch.randn(5, 20, generator=gen)
x_val, y_val = clusters(1000, gen, centres)
trainer = Trainer(Classifier())
for step in range(120):
    loss = trainer.train_step(*clusters(64, gen, centres))
    if step % 20 == 0 or step == 119:
        print(f"step {step} loss {loss:.4f} scale {trainer.scaler.get_scale():.0f}")
print(f"validation accuracy {trainer.accuracy(x_val, y_val):.4f}")
