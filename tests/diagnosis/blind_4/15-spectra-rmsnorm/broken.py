import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(13)
BANDS, CLASSES = 32, 5


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        inv = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)  # @fault
        return (x * inv * self.weight).to(x.dtype)


class SpectrumClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = RMSNorm(BANDS)
        self.net = nn.Sequential(nn.Linear(BANDS, 32), nn.GELU(), nn.Linear(32, CLASSES))

    def forward(self, x):
        return self.net(self.norm(x))


shapes = torch.rand(CLASSES, BANDS) + 0.2


def photons(n):
    y = torch.randint(0, CLASSES, (n,))
    brightness = torch.empty(n, 1).uniform_(40.0, 3000.0)
    x = shapes[y] * brightness * (1 + 0.35 * torch.randn(n, BANDS))
    return x.clamp(0, 30000), y


model = SpectrumClassifier()
opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
for step in range(250):
    x, y = photons(64)
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(x.to(torch.float16))
    loss = F.cross_entropy(logits.float(), y)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    if step % 25 == 0:
        print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
    x, y = photons(3000)
    acc = (model(x.to(torch.float16)).argmax(1) == y).float().mean()
print(f"accuracy {acc.item():.4f}")
