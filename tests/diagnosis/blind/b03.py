"""Distillation with a layer-wise adaptive optimizer (LARS) on a half precision student."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(3)
HALF = torch.float32 if os.environ.get("REF") else torch.float16
WIDTH, CLASSES, BATCH, STEPS, TEMPERATURE = 32, 10, 64, 150, 12.0


class Lars(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.9, trust=0.02):
        super().__init__(params, {"lr": lr, "momentum": momentum, "trust": trust})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["master"] = p.detach().float().clone()
                    state["velocity"] = torch.zeros_like(state["master"])
                weight_norm = state["master"].norm()
                grad_norm = torch.sqrt((p.grad * p.grad).sum())  # @fault
                ratio = 1.0
                if weight_norm > 0 and grad_norm > 0:
                    ratio = group["trust"] * weight_norm / grad_norm.float()
                velocity = state["velocity"].mul_(group["momentum"])
                velocity.add_(p.grad.float() * ratio, alpha=group["lr"])
                state["master"].sub_(velocity)
                p.copy_(state["master"])


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.first = nn.Linear(WIDTH, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.third = nn.Linear(hidden, CLASSES)

    def forward(self, x):
        return self.third(torch.tanh(self.second(torch.tanh(self.first(x)))))


def softened(logits):
    return F.log_softmax(logits.float() / TEMPERATURE, -1)


teacher, student = Net(64), Net(32).to(HALF)
with torch.no_grad():
    teacher.third.weight.mul_(5)
opt = Lars(student.parameters(), lr=0.5)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)

recent = []
for step in range(STEPS):
    x = torch.randn(BATCH, WIDTH)
    with torch.no_grad():
        wanted = teacher(x)
    logits = student(x.to(HALF))
    loss = F.kl_div(softened(logits), softened(wanted), reduction="batchmean", log_target=True)
    student.zero_grad()
    loss.backward()
    opt.step()
    schedule.step()
    same = (logits.argmax(-1) == wanted.argmax(-1)).float().mean().item()
    recent = (recent + [(loss.item(), same)])[-20:]
    if step % 25 == 0 or step == STEPS - 1:
        mean, agree = (sum(r) / len(r) for r in zip(*recent, strict=True))
        print(f"step {step} loss {mean:.6f} agreement {agree:.3f}")
