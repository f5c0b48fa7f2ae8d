"""Token tagging with a linear layer whose operands and incoming gradients are eight-bit floats."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(167)
EIGHT_BIT = not os.environ.get("REF")
READOUT = 16.0


def e4m3(t):
    if not EIGHT_BIT:
        return t
    scale = t.abs().amax() / 448
    return (t / scale).to(torch.float8_e4m3fn).to(t.dtype) * scale


class Float8Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        x, w = e4m3(x), e4m3(w)
        ctx.save_for_backward(x, w)
        return torch.matmul(x, w.t())

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        if EIGHT_BIT:
            g = g.to(torch.float8_e5m2).to(x.dtype)  # @fault
        return g @ w, torch.einsum("bto,bti->oi", g, x)


class Float8Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * (2 / inputs) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return Float8Product.apply(x, self.weight) + self.bias


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 24)
        self.one, self.two = Float8Linear(24, 48), Float8Linear(48, 48)
        self.head = nn.Linear(48, 7)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + 0.5 * x.roll(1, dims=1)
        return self.head(torch.relu(self.two(torch.relu(self.one(x))))) / READOUT


tag = torch.randint(7, (50,))
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
for step in range(110):
    tokens = torch.randint(50, (48, 40))
    truth = (tag[tokens] + tag[tokens.roll(1, dims=1)]) % 7
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), truth.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")
print(f"last loss {loss.item():.4f}")
