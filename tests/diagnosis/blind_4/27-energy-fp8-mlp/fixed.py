import torch
import torch.nn as nn

torch.manual_seed(27)
FP8_MAX = 448.0


class Fp8Linear(nn.Module):
    """Linear layer whose input passes through scaled e4m3."""

    def __init__(self, a, b):
        super().__init__()
        self.lin = nn.Linear(a, b)
        self.register_buffer("amax", torch.zeros(()))

    def cast(self, x):
        peak = x.detach().abs().max()
        if self.training:
            self.amax.copy_(torch.maximum(0.99 * self.amax, peak))
        scale = FP8_MAX / self.amax.clamp_min(1e-12)
        q = (x * scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn).float() / scale
        return x + (q - x).detach()

    def forward(self, x):
        return self.lin(self.cast(x))


class EnergyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2, self.l3 = Fp8Linear(6, 48), Fp8Linear(48, 48), Fp8Linear(48, 1)

    def forward(self, x):
        h = torch.relu(self.l1(x))
        h = torch.relu(self.l2(h))
        return self.l3(h).squeeze(-1)


def molecules(n):
    x = torch.rand(n, 6) * 2 - 1
    return x, 25.0 * x.pow(2).sum(1) + 10.0 * x[:, 0] * x[:, 1]


model = EnergyNet()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(600):
    x, y = molecules(64)
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 60 == 0:
        print(f"step {step} mse {loss.item():.3f}")
model.eval()
with torch.no_grad():
    x, y = molecules(4000)
    mse = nn.functional.mse_loss(model(x), y)
print(f"test mse {mse.item():.3f} of variance {y.var().item():.1f}")
