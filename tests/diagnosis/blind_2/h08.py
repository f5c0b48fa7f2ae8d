"""Eight-bit float weights and activations with current scales and a clipped tail."""

import os

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(108)
REF = bool(os.environ.get("REF"))
FP8 = torch.float8_e4m3fn
FP8_MAX = torch.finfo(FP8).max


def fake_fp8(x, quantile):
    if REF:
        return x
    with torch.no_grad():
        flat = x.abs().flatten()
        top = flat.kthvalue(max(1, int(quantile * flat.numel()))).values.clamp(min=1e-12)
        scale = FP8_MAX / top
        low = (x * scale).clamp(-FP8_MAX, FP8_MAX).to(FP8).to(x.dtype) / scale
    return x + (low - x).detach()


class FP8Linear(nn.Linear):
    def forward(self, x):
        return F.linear(fake_fp8(x, 0.999), fake_fp8(self.weight, 1.0), self.bias)


def main():
    model = nn.Sequential(
        FP8Linear(12, 64), nn.ReLU(), FP8Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=150)
    mix = torch.randn(12, 3) / 3
    recent = []
    for step in range(150):
        x = torch.randn(64, 12) * torch.exp(0.4 * torch.randn(64, 1))
        y = torch.tanh(x @ mix)
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        recent = [*recent[-19:], loss.item()]
        if step % 15 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final {sum(recent) / len(recent):.5f}")


if __name__ == "__main__":
    main()
