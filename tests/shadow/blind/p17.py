"""BF16 weights updated with stochastic rounding, momentum kept in FP32."""

import os

import torch

torch.set_num_threads(1)
torch.manual_seed(113)
REF = bool(os.environ.get("REF"))
WEIGHTS = torch.float64 if REF else torch.bfloat16


def round_stochastically(wide):
    if REF:
        return wide
    bits = wide.float().view(torch.int32)
    noise = torch.randint(0, 1 << 16, bits.shape, dtype=torch.int32)
    return ((bits + noise) & -65536).view(torch.float32).bfloat16()


def init(a, b):
    return (torch.randn(a, b) / a**0.5).to(WEIGHTS).requires_grad_()


def forward(params, x):
    for weight in params[:-1]:
        x = torch.relu(x @ weight)
    return x @ params[-1]


teacher = torch.randn(16, 3)
params = [init(16, 64), init(64, 64), init(64, 3)]
momentum = [torch.zeros_like(p, dtype=torch.float64 if REF else torch.float32) for p in params]
recent = []
for step in range(150):
    x = torch.randn(128, 16)
    y = torch.tanh(x @ teacher / 4)
    loss = (forward(params, x.to(WEIGHTS)).float() - y).square().mean()
    grads = torch.autograd.grad(loss, params)
    lr = 0.02 * min(1.0, (step + 1) / 10)
    with torch.no_grad():
        for p, g, m in zip(params, grads, momentum, strict=True):
            m.mul_(0.9).add_(g.to(m.dtype))
            p.copy_(round_stochastically(p.to(m.dtype) - lr * m))
    recent.append(loss.item())
    if step % 25 == 0:
        print(f"step {step:3d}: {loss.item():.4f}")
print(f"mean of the last 20 losses: {sum(recent[-20:]) / 20:.4f}")
