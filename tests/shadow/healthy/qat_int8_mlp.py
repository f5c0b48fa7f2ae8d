"""Quantisation-aware training of a small MLP: int8 weights and activations, straight-through."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(2)
REF = bool(os.environ.get("REF"))


class FakeQuantize(torch.autograd.Function):
    """Rounds to a grid of int8; gradients pass where the value was not clamped."""

    @staticmethod
    def forward(ctx, x, scale, zero_point, low, high):
        steps = torch.round(x / scale) + zero_point
        ctx.save_for_backward((steps >= low) & (steps <= high))
        return (steps.clamp(low, high) - zero_point) * scale

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None, None, None, None


class QuantLinear(nn.Linear):
    def __init__(self, n_in, n_out):
        super().__init__(n_in, n_out)
        self.register_buffer("low", torch.tensor(0.0))
        self.register_buffer("high", torch.tensor(0.0))

    def forward(self, x):
        if REF:
            return super().forward(x)
        with torch.no_grad():
            if self.training:
                rate = 0.05 if self.high > self.low else 1.0
                self.low.lerp_(x.min().clamp(max=0.0), rate)
                self.high.lerp_(x.max().clamp(min=0.0), rate)
            scale_x = ((self.high - self.low) / 255).clamp(min=1e-8)
            zero_x = torch.round(-self.low / scale_x) - 128
            scale_w = (self.weight.abs().amax(dim=1, keepdim=True) / 127).clamp(min=1e-8)
        xq = FakeQuantize.apply(x, scale_x, zero_x, -128, 127)
        wq = FakeQuantize.apply(self.weight, scale_w, torch.zeros(()), -127, 127)
        return nn.functional.linear(xq, wq, self.bias)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = QuantLinear(20, 64)
        self.b = QuantLinear(64, 64)
        self.c = QuantLinear(64, 5)

    def forward(self, x):
        x = torch.relu(self.a(x))
        return self.c(torch.relu(self.b(x)))


def main():
    centres = torch.randn(5, 20)
    labels = torch.randint(0, 5, (1500,))
    inputs = centres[labels] + 0.9 * torch.randn(1500, 20)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(120):
        rows = torch.randint(0, 1500, (128,))
        loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        logits = model(inputs)
        final = nn.functional.cross_entropy(logits, labels)
        accuracy = (logits.argmax(-1) == labels).float().mean()
    print(f"final loss {final.item():.4f} accuracy {accuracy.item():.4f}")


if __name__ == "__main__":
    main()
