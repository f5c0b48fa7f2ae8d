"""Fine-tuning a BF16 network with an optimizer that keeps FP32 copies of the weights."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(7)
REF = bool(os.environ.get("REF"))
HALF = torch.float64 if REF else torch.bfloat16
FULL = torch.float64 if REF else torch.float32


class MasterAdam:
    """Adam on full-precision copies; the model holds the low-precision weights."""

    def __init__(self, params, lr):
        self.params = [p for p in params if p.requires_grad]
        self.masters = [p.detach().clone().to(FULL).requires_grad_() for p in self.params]
        self.inner = torch.optim.Adam(self.masters, lr=lr, betas=(0.9, 0.99))

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for m, p in zip(self.masters, self.params, strict=True):
            m.copy_(p)  # @fault
            m.grad = p.grad.to(FULL)
        self.inner.step()
        for m, p in zip(self.masters, self.params, strict=True):
            p.copy_(m)  # @fault


def network():
    return nn.Sequential(
        nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4)
    )


def main():
    gen = torch.Generator().manual_seed(2)
    net = network()
    goal = network()
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(2.5)
        for p, g in zip(net.parameters(), goal.parameters(), strict=True):
            g.copy_(p + 0.04 * torch.randn(p.shape, generator=gen))
    net = net.to(HALF)
    opt = MasterAdam(net.parameters(), lr=5e-4)
    x_val = torch.randn(1024, 16, generator=gen)
    with torch.no_grad():
        y_val = goal(x_val)
    for step in range(200):
        x = torch.randn(128, 16, generator=gen)
        with torch.no_grad():
            y = goal(x)
        loss = F.mse_loss(net(x.to(HALF)).to(FULL), y.to(FULL))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 0 or step == 199:
            with torch.no_grad():
                val = F.mse_loss(net(x_val.to(HALF)).to(FULL), y_val.to(FULL))
            print(f"step {step} loss {loss.item():.5f} val {val.item():.5f}")


if __name__ == "__main__":
    main()
