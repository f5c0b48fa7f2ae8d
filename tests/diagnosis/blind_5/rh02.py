import torch
import torch.nn as nn
import torch.nn.functional as F

# BF16 weights without master copies: the update is written back with stochastic rounding.
torch.manual_seed(2)


def stochastic_bf16(x):
    bits = x.contiguous().view(torch.int32)
    noise = torch.randint(0, 1 << 16, bits.shape, dtype=torch.int32)
    return ((bits + noise) & -65536).view(torch.float32).to(torch.bfloat16)


class RoundingSGD:
    def __init__(self, params, lr, momentum=0.9):
        self.params, self.lr, self.momentum = list(params), lr, momentum
        self.buf = [torch.zeros_like(p, dtype=torch.float32) for p in self.params]

    @torch.no_grad()
    def step(self):
        for p, b in zip(self.params, self.buf):
            b.mul_(self.momentum).add_(p.grad.float())
            p.copy_(stochastic_bf16(p.float() - self.lr * b))
            p.grad = None


def spirals(n):
    arm = torch.randint(0, 3, (n,))
    r = torch.rand(n)
    a = arm * 2.094 + r * 4 + 0.15 * torch.randn(n)
    return torch.stack([r * a.cos(), r * a.sin()], 1) * 2, arm


class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.register_buffer("w", torch.randn(2, 16) * 1.5)
        self.net = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, x):
        a = x.to(self.w.dtype) @ self.w
        return self.net(torch.cat([a.sin(), a.cos()], 1)).float()


def main():
    net = Net().to(torch.bfloat16)
    opt = RoundingSGD(net.parameters(), lr=0.01)
    xv, yv = spirals(1000)
    for step in range(1, 501):
        opt.lr = 0.01 if step < 350 else 0.002
        x, y = spirals(64)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        if step % 100 == 0:
            with torch.no_grad():
                acc = (net(xv).argmax(1) == yv).float().mean().item()
            print(f"step {step} loss {loss.item():.4f} acc {acc:.4f}")


main()
