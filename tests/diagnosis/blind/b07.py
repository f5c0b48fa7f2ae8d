"""Distillation of picture embeddings from a fixed teacher into a half precision student."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(17)
HALF = torch.float32 if os.environ.get("REF") else torch.float16
PIXELS, DIM, BATCH, STEPS = 48, 16, 32, 100
SCALE = 256.0


class Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        norm = x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(x, norm)
        return x / norm

    @staticmethod
    def backward(ctx, grad):
        x, norm = ctx.saved_tensors
        dot = (x * grad).sum(-1, keepdim=True)
        return grad / norm - x * dot / norm**3  # @fault


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(PIXELS, 48, bias=False)
        self.second = nn.Linear(48, DIM, bias=False)

    def forward(self, x):
        return Normalize.apply(self.second(torch.relu(self.first(x))))


class Teacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(PIXELS, 64), nn.Tanh(), nn.Linear(64, DIM))

    @torch.no_grad()
    def forward(self, x):
        bright = x / x.mean(-1, keepdim=True)
        return nn.functional.normalize(self.body(bright), dim=-1)


def pictures(generator):
    content = torch.rand(BATCH, PIXELS, generator=generator)
    exposure = torch.rand(BATCH, 1, generator=generator)
    night = torch.rand(BATCH, 1, generator=generator) < 0.002
    return content * torch.where(night, 0.001, 0.3 + 0.7 * exposure)


def main():
    teacher, student = Teacher(), Student().to(HALF)
    masters = [p.detach().float().clone() for p in student.parameters()]
    for m in masters:
        m.requires_grad_()
    opt = torch.optim.Adam(masters, lr=3e-3)
    generator = torch.Generator().manual_seed(6)
    for step in range(STEPS):
        x = pictures(generator)
        target = teacher(x)
        guess = student(x.to(HALF)).float()
        loss = (1 - (guess * target).sum(-1)).mean()
        student.zero_grad(set_to_none=True)
        (loss * SCALE).backward()
        for m, p in zip(masters, student.parameters(), strict=True):
            m.grad = p.grad.float().div_(SCALE)
        opt.step()
        with torch.no_grad():
            for m, p in zip(masters, student.parameters(), strict=True):
                p.copy_(m)
        if step % 10 == 0 or step == STEPS - 1:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
