"""A small mixture of experts in half precision with FP32 master weights."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(11)
HALF = torch.float32 if os.environ.get("REF") else torch.float16
WIDTH, EXPERTS, BATCH, STEPS = 16, 4, 64, 120
SCALE, TEMPERATURE = 128.0, 0.5


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 32) * WIDTH**-0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, 32, 1) * 32**-0.5)

    def gates(self, x):
        weight = torch.exp(self.router(x) / TEMPERATURE)  # @fault
        return weight / weight.sum(-1, keepdim=True)

    def forward(self, x):
        hidden = torch.relu(torch.einsum("bi,eih->ebh", x, self.up))
        out = torch.bmm(hidden, self.down).squeeze(-1)
        return (self.gates(x) * out.t()).sum(-1)


centres = torch.randn(EXPERTS, WIDTH) * 1.5
maps = torch.randn(EXPERTS, WIDTH) * 0.7


def batch():
    which = torch.randint(EXPERTS, (BATCH,))
    x = centres[which] + 0.5 * torch.randn(BATCH, WIDTH)
    return x, (x * maps[which]).sum(-1) + 0.05 * torch.randn(BATCH)


model = Experts().to(HALF)
masters = [p.detach().float().clone().requires_grad_() for p in model.parameters()]
opt = torch.optim.Adam([{"params": masters[:2]}, {"params": masters[2:], "lr": 2e-2}], lr=1e-2)

for step in range(STEPS):
    x, y = batch()
    pred = model(x.to(HALF))
    loss = ((pred.float() - y) ** 2).mean()
    for p in model.parameters():
        p.grad = None
    (loss * SCALE).backward()
    for master, p in zip(masters, model.parameters(), strict=True):
        master.grad = p.grad.float() / SCALE
    opt.step()
    with torch.no_grad():
        for master, p in zip(masters, model.parameters(), strict=True):
            p.copy_(master)
    if step % 20 == 0 or step == STEPS - 1:
        print(f"step {step} loss {loss.item():.4f}")
