import torch
import torch.nn as nn

torch.manual_seed(4)
CH = 24


class ChannelGain(nn.Module):
    """Per-channel gain that starts as the identity."""

    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * self.weight


class Calibrator(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = ChannelGain(CH)
        self.offset = nn.Parameter(torch.zeros(CH))

    def forward(self, x):
        return self.gain(x) + self.offset


true_gain = 1.0 + 0.25 * torch.randn(CH)
true_offset = 0.2 * torch.randn(CH)


def readings(n):
    raw = torch.randn(n, CH) * 2.0
    return raw, raw * true_gain + true_offset


model = Calibrator()
model = model.to(torch.bfloat16)  # @fault
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
dtype = model.offset.dtype
for step in range(600):
    raw, ref = readings(64)
    pred = model(raw.to(dtype))
    loss = nn.functional.mse_loss(pred.float(), ref)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 60 == 0:
        print(f"step {step} mse {loss.item():.5f}")

with torch.no_grad():
    raw, ref = readings(4000)
    mse = nn.functional.mse_loss(model(raw.to(dtype)).float(), ref)
print(f"calibration mse {mse.item():.5f}")
