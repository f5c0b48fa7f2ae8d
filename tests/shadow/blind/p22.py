"""Residual network on raw sensor counts, FP16 activations, root-mean-square normalisation."""

import os

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(151)
HALF = torch.float32 if os.environ.get("REF") else torch.float16


class RMSNorm(torch.nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        power = x.pow(2).mean(dim=-1, keepdim=True)  # @fault
        return x * torch.rsqrt(power + self.eps) * self.weight.to(x.dtype)


class CastLinear(torch.nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype), self.bias.to(x.dtype))


class Residual(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = RMSNorm(width)
        self.up, self.down = CastLinear(width, 48), CastLinear(48, width)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


class Net(torch.nn.Module):
    def __init__(self, sensors=16):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Residual(sensors), Residual(sensors)])
        self.norm = RMSNorm(sensors)
        self.head = CastLinear(sensors, 4)

    def forward(self, counts):
        x = counts.to(HALF)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


prototypes = torch.rand(4, 16) + 0.2


def readings(size):
    label = torch.randint(4, (size,))
    exposure = 40 * 25 ** torch.rand(size, 1)
    return torch.poisson(prototypes[label] * exposure).clamp(max=4000), label


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=HALF is torch.float16)
tail = []
for step in range(120):
    counts, label = readings(96)
    loss = F.cross_entropy(net(counts).float(), label)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    tail.append(loss.item())
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")
print(f"mean loss of the last 20 steps {sum(tail[-20:]) / 20:.4f}")
