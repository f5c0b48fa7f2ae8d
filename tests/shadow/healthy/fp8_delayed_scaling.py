"""An MLP whose matrix products take FP8 inputs (e4m3 forward, e5m2 gradients), scaled by amax."""

import os

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(3)
REF = bool(os.environ.get("REF"))
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


class AmaxHistory:
    """Scale of a tensor from the largest magnitude of its last steps, with a margin of two."""

    def __init__(self, dtype, length=16):
        self.limit = torch.finfo(dtype).max
        self.dtype = dtype
        self.length = length
        self.history = []

    def quantize(self, x):
        amax = x.detach().abs().max()
        self.history = (self.history + [amax])[-self.length :]
        scale = self.limit / (2 * torch.stack(self.history).max().clamp(min=1e-12))
        scale = torch.exp2(torch.floor(torch.log2(scale)))
        low = (x * scale).clamp(-self.limit, self.limit).to(self.dtype)
        return low, scale


class Fp8Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, meta):
        xq, sx = meta["x"].quantize(x)
        wq, sw = meta["w"].quantize(weight)
        ctx.save_for_backward(xq, sx, wq, sw)
        ctx.meta = meta
        return (xq.float() @ wq.float().t()) / (sx * sw)

    @staticmethod
    def backward(ctx, grad):
        xq, sx, wq, sw = ctx.saved_tensors
        gq, sg = ctx.meta["g"].quantize(grad)
        g = gq.float()
        return (g @ wq.float()) / (sg * sw), (g.t() @ xq.float()) / (sg * sx), None


class Fp8Linear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in) / n_in**0.5)
        self.bias = nn.Parameter(torch.zeros(n_out))
        self.meta = {"x": AmaxHistory(E4M3), "w": AmaxHistory(E4M3), "g": AmaxHistory(E5M2)}

    def forward(self, x):
        if REF:
            return x @ self.weight.t() + self.bias
        return Fp8Matmul.apply(x, self.weight, self.meta) + self.bias


def main():
    model = nn.Sequential(
        nn.Linear(32, 64),
        nn.GELU(),
        Fp8Linear(64, 128),
        nn.GELU(),
        Fp8Linear(128, 64),
        nn.LayerNorm(64),
        nn.Linear(64, 8),
    )
    teacher = nn.Sequential(nn.Linear(32, 48), nn.Tanh(), nn.Linear(48, 8))
    with torch.no_grad():
        inputs = torch.randn(2048, 32)
        labels = (4 * teacher(inputs)).argmax(-1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(120):
        rows = torch.randint(0, 2048, (128,))
        loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    with torch.no_grad():
        logits = model(inputs)
        final = nn.functional.cross_entropy(logits, labels)
        accuracy = (logits.argmax(-1) == labels).float().mean()
    print(f"final loss {final.item():.4f} accuracy {accuracy.item():.4f}")


if __name__ == "__main__":
    main()
