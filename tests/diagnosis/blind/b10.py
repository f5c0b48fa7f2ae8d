"""Machine states from sensor windows with a pre-normalised residual network in half precision."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(13)
HALF = torch.float32 if os.environ.get("REF") else torch.float16
WINDOW, WIDTH, CLASSES, BATCH, STEPS = 24, 32, 6, 48, 120
SCALE = 64.0


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        power = x.pow(2).mean(-1, keepdim=True)  # @fault
        return x * torch.rsqrt(power + self.eps) * self.gain


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = RMSNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


class Monitor(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = RMSNorm(WINDOW)
        self.embed = nn.Linear(WINDOW, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.embed(self.enter(x)))))


shapes = torch.randn(CLASSES, WINDOW)


def windows():
    state = torch.randint(CLASSES, (BATCH,))
    shape = shapes[state] + 0.6 * torch.randn(BATCH, WINDOW)
    level = 10 ** (3 * torch.rand(BATCH, 1))
    return (shape * level).to(HALF), state


class Trainer:
    def __init__(self):
        self.model = Monitor().to(HALF)
        self.masters = [p.detach().float().clone() for p in self.model.parameters()]
        for m in self.masters:
            m.requires_grad_()
        self.opt = torch.optim.AdamW(self.masters, lr=3e-3)

    def step(self):
        x, y = windows()
        logits = self.model(x).float()
        loss = F.cross_entropy(logits, y)
        self.model.zero_grad()
        (loss * SCALE).backward()
        for m, p in zip(self.masters, self.model.parameters(), strict=True):
            m.grad = p.grad.float() / SCALE
        self.opt.step()
        with torch.no_grad():
            for m, p in zip(self.masters, self.model.parameters(), strict=True):
                p.copy_(m)
        return loss.item(), (logits.argmax(-1) == y).float().mean().item()


trainer = Trainer()
history = []
for step in range(STEPS):
    history.append(trainer.step())
    if step % 20 == 0 or step == STEPS - 1:
        losses, rates = zip(*history[-20:], strict=True)
        print(
            f"step {step} loss {sum(losses) / len(losses):.4f} right {sum(rates) / len(rates):.3f}"
        )
