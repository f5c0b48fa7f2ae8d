"""Sensor classifier: raw channels go through a running normaliser, the rest runs in 16-bit autocast."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)
CH, CLASSES = 16, 5
SCALE = torch.logspace(-1, 3.2, CH)
OFFSET = SCALE * torch.randn(CH)
PROTO = torch.randn(CLASSES, CH)
IMPORTANT = torch.linspace(0.2, 1.0, CH)


def readings(n):
    y = torch.randint(0, CLASSES, (n,))
    z = PROTO[y] * IMPORTANT + torch.randn(n, CH) * 0.8
    return z * SCALE + OFFSET, y


class RunningNorm(nn.Module):
    def __init__(self, dim, dtype, momentum=0.05):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(dim, dtype=dtype))
        self.register_buffer("var", torch.ones(dim, dtype=dtype))

    def forward(self, x):
        if self.training:
            mean, var = x.mean(0), x.var(0)
            self.mean.mul_(1 - self.momentum).add_(mean.to(self.mean.dtype), alpha=self.momentum)
            self.var.mul_(1 - self.momentum).add_(var.to(self.var.dtype), alpha=self.momentum)
        else:
            mean, var = self.mean.float(), self.var.float()
        return (x - mean) * torch.rsqrt(var + 1e-5)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = RunningNorm(CH, dtype=torch.float16)  # @fault
        self.body = nn.Sequential(nn.Linear(CH, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES))

    def forward(self, x):
        return self.body(self.norm(x))


@torch.no_grad()
def test(net, x, y):
    net.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(x)
    net.train()
    return F.cross_entropy(logits.float(), y).item(), (logits.argmax(1) == y).float().mean().item()


net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
xv, yv = readings(1000)
hits = seen = 0
for step in range(1, 301):
    x, y = readings(64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(x)
    loss = F.cross_entropy(logits.float(), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    hits += (logits.argmax(1) == y).sum().item()
    seen += len(y)
    if step % 60 == 0:
        nll, acc = test(net, xv, yv)
        print(f"step {step} train loss {loss.item():.4f} train acc {hits / seen:.3f} | test nll {nll:.4f} acc {acc:.3f}")
        hits = seen = 0
