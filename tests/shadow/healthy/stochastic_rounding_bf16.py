"""Fine-tunes BF16 weights with small SGD steps that are rounded stochastically."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)
REF = bool(os.environ.get("REF"))
DTYPE = torch.float32 if REF else torch.bfloat16


def copy_stochastic_(target, source):
    """Copies FP32 `source` to BF16 `target`; rounds up with the probability of the remainder."""
    noise = torch.randint(0, 1 << 16, source.shape, dtype=torch.int32)
    bits = source.contiguous().view(torch.int32)
    rounded = (bits + noise).bitwise_and_(-65536)
    target.copy_(rounded.view(torch.float32))


@torch.no_grad()
def sgd_step(params, momentum, lr):
    for p in params:
        buf = momentum.setdefault(p, torch.zeros_like(p, dtype=torch.float32))
        buf.mul_(0.9).add_(p.grad.float())
        new = p.float() - lr * buf
        if p.dtype == torch.bfloat16:
            copy_stochastic_(p, new)
        else:
            p.copy_(new)
        p.grad = None


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(16, 128)
        self.mix = nn.Linear(128, 128)
        self.out = nn.Linear(128, 1)

    def forward(self, x):
        hidden = torch.tanh(self.lift(x))
        hidden = hidden + torch.tanh(self.mix(hidden))
        return self.out(hidden).squeeze(-1)


def main():
    inputs = torch.randn(2048, 16)
    targets = torch.sin(inputs[:, 0]) + 0.5 * inputs[:, 1] * inputs[:, 2] + 0.3 * inputs[:, 3]
    model = Regressor().to(DTYPE)
    momentum = {}
    batches = torch.Generator().manual_seed(5)
    for step in range(150):
        rows = torch.randint(0, 2048, (256,), generator=batches)
        pred = model(inputs[rows].to(DTYPE)).float()
        loss = (pred - targets[rows]).square().mean()
        loss.backward()
        sgd_step(list(model.parameters()), momentum, lr=2e-3)
        if step % 30 == 0:
            print(f"step {step} mse {loss.item():.4f}")
    with torch.no_grad():
        final = (model(inputs.to(DTYPE)).float() - targets).square().mean()
    print(f"final loss {final.item():.4f}")


if __name__ == "__main__":
    main()
