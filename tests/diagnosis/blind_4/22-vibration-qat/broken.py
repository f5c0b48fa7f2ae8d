import torch
import torch.nn as nn

torch.manual_seed(22)


class FakeQuant(nn.Module):
    """8-bit activation quantiser with a moving-average range."""

    def __init__(self, averaging=0.003):
        super().__init__()
        self.averaging = averaging
        self.register_buffer("amax", torch.zeros((), dtype=torch.bfloat16))  # @fault

    def forward(self, x):
        if self.training:
            peak = x.detach().abs().max().to(self.amax.dtype)
            if self.amax == 0:
                self.amax.copy_(peak)
            else:
                self.amax.lerp_(peak, self.averaging)
        scale = self.amax.float() / 127
        q = torch.clamp(torch.round(x / scale), -127, 127) * scale
        return torch.clamp(x, -127 * scale, 127 * scale) + (q - torch.clamp(x, -127 * scale, 127 * scale)).detach()


class WearModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = FakeQuant()
        self.fc = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.fc(self.quant(x)).squeeze(-1)


w = torch.randn(12)


def bench(n, amplitude):
    x = (torch.rand(n, 12) * 2 - 1) * amplitude
    return x, x @ w + 0.3 * (x[:, 0] * x[:, 1])


model = WearModel()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(600):
    amplitude = min(2.4, 1.0 + 0.05 * step)
    x, y = bench(64, amplitude)
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 60 == 0:
        print(f"step {step} mse {loss.item():.4f} range {model.quant.amax.item():.3f}")
model.eval()
with torch.no_grad():
    x, y = bench(4000, 2.4)
    print(f"eval mse {nn.functional.mse_loss(model(x), y).item():.4f}")
