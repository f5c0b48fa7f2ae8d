"""Fine-tuning bfloat16 weights with a compensated Adam."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(6)
DTYPE = torch.float32 if os.environ.get("REF") else torch.bfloat16
WIDTH, CLASSES, BATCH, STEPS = 32, 8, 64, 180


class CompensatedAdam(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.95), eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["m"] = torch.zeros_like(p, dtype=torch.float32)
                    state["v"] = torch.zeros_like(p, dtype=torch.float32)
                    state["rest"] = torch.zeros_like(p)
                state["step"] += 1
                grad = p.grad.float()
                m = state["m"].lerp_(grad, 1 - first)
                v = state["v"].mul_(second).addcmul_(grad, grad, value=1 - second)
                m_hat = m / (1 - first ** state["step"])
                v_hat = v / (1 - second ** state["step"])
                rest = state["rest"]
                rest.sub_(group["lr"] * m_hat / (v_hat.sqrt() + group["eps"]))
                before = p.clone()
                p.add_(rest)
                rest.add_(before - p)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(x + self.down(F.gelu(self.up(self.norm(x)))))


rule = torch.randn(WIDTH, CLASSES)


def batch():
    x = torch.randn(BATCH, WIDTH)
    return x.to(DTYPE), (x + 0.3 * x.roll(1, 1)).mm(rule).argmax(-1)


net = Net().to(DTYPE)
opt = CompensatedAdam(net.parameters(), lr=5e-4)
recent = []
for step in range(STEPS):
    x, y = batch()
    loss = F.cross_entropy(net(x).float(), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    recent = (recent + [loss.item()])[-20:]
    if step % 20 == 0 or step == STEPS - 1:
        print(f"step {step} loss {sum(recent) / len(recent):.4f}")
