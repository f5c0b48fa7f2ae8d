"""Spiral classification with half weights, FP32 master copy and a memory-saving Adam of our own."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)


class LeanAdam:
    """Adam with FP32 masters; moments take half the room."""

    def __init__(self, params, lr=3e-3, betas=(0.9, 0.99), eps=1e-8, state_dtype=torch.float16):
        self.params = list(params)
        self.master = [p.detach().float().clone() for p in self.params]
        self.m = [torch.zeros_like(p, dtype=torch.float32) for p in self.params]
        self.v = [torch.zeros_like(p, dtype=state_dtype) for p in self.params]  # @fault
        self.lr, self.betas, self.eps, self.t = lr, betas, eps, 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        c1, c2 = 1 - b1**self.t, 1 - b2**self.t
        for p, w, m, v in zip(self.params, self.master, self.m, self.v):
            g = p.grad.float()
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).add_((g * g).to(v.dtype), alpha=1 - b2)
            w.sub_(self.lr * (m / c1) / ((v / c2).sqrt() + self.eps))
            p.copy_(w)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(2, 64), nn.Linear(64, 64), nn.Linear(64, 3)

    def forward(self, x):
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


def spiral(n):
    cls = torch.randint(0, 3, (n,))
    r = torch.rand(n)
    ang = 4 * r + cls * 2.0944 + 0.1 * torch.randn(n)
    return torch.stack([r * ang.cos(), r * ang.sin()], 1) * 2, cls


model = Net().bfloat16()
opt = LeanAdam(model.parameters())
for step in range(300):
    x, y = spiral(256)
    loss = F.cross_entropy(model(x.bfloat16()).float(), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 29:
        print(f"step {step + 1} loss {loss.item():.4f}")
