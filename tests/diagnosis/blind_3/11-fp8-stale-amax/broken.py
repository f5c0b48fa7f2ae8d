"""Linear layers whose inputs pass through float8_e4m3fn with a per-tensor scale."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)


class FP8Linear(nn.Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.register_buffer("amax", torch.zeros(()))

    def quantise(self, x):
        with torch.no_grad():
            if self.amax == 0:  # @fault
                self.amax.copy_(2 * x.abs().max())  # @fault
            scale = 448.0 / self.amax
            rounded = (x * scale).to(torch.float8_e4m3fn).float() / scale
        return x + (rounded - x).detach()

    def forward(self, x):
        return F.linear(self.quantise(x), self.weight, self.bias)


model = nn.Sequential(FP8Linear(24, 64), nn.ReLU(), FP8Linear(64, 64), nn.ReLU(), FP8Linear(64, 8))
for module in model:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.05)
        nn.init.zeros_(module.bias)
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
plane = torch.randn(24, 8)

for step in range(100):
    x = torch.rand(64, 24) * 2 - 1
    y = (x @ plane).argmax(1)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 99:
        print(f"step {step} loss {loss.item():.4f}")
