"""Quantisation-aware training: weights and activations pass through float8 with delayed scales and clipping."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)
FP8 = torch.float8_e4m3fn
FP8_MAX = torch.finfo(FP8).max


class Fake8(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        return (x * scale).clamp(-FP8_MAX, FP8_MAX).to(FP8).float() / scale

    @staticmethod
    def backward(ctx, g):
        return g, None


class Linear8(nn.Linear):
    def __init__(self, i, o, history=16, margin=0.8):
        super().__init__(i, o)
        self.margin = margin
        self.register_buffer("amax", torch.full((history,), 4.0))
        self.register_buffer("at", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        scale = FP8_MAX / (self.amax.max() * self.margin)
        if self.training:
            with torch.no_grad():
                self.amax[self.at % len(self.amax)] = x.abs().max().clamp_min(1e-4)
                self.at += 1
        w_scale = FP8_MAX / self.weight.detach().abs().max()
        return F.linear(Fake8.apply(x, scale), Fake8.apply(self.weight, w_scale), self.bias)


def digits(n):
    """Seven-segment digits drawn on 9x5 pixels with noise."""
    seg = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcfgd"]
    where = {"a": (0, slice(1, 4)), "g": (4, slice(1, 4)), "d": (8, slice(1, 4)), "f": (slice(1, 4), 0),
             "b": (slice(1, 4), 4), "e": (slice(5, 8), 0), "c": (slice(5, 8), 4)}
    proto = torch.zeros(10, 9, 5)
    for k, s in enumerate(seg):
        for c in s:
            proto[(k, *where[c])] = 1.0
    y = torch.randint(0, 10, (n,))
    return (proto[y] + 0.35 * torch.randn(n, 9, 5)).flatten(1), y


def main():
    net = nn.Sequential(Linear8(45, 96), nn.ReLU(), Linear8(96, 96), nn.ReLU(), Linear8(96, 10))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    xv, yv = digits(800)
    for step in range(1, 351):
        x, y = digits(64)
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 70 == 0:
            net.eval()
            with torch.no_grad():
                acc = (net(xv).argmax(1) == yv).float().mean().item()
                clipped = (xv.abs() > net[0].amax.max() * net[0].margin).float().mean().item()
            net.train()
            print(f"step {step} loss {loss.item():.4f} acc {acc:.4f} clipped inputs {clipped:.5f}")


if __name__ == "__main__":
    main()
