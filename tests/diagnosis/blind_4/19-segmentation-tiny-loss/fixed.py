import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(18)


class TinySeg(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Conv2d(1, 8, 3, padding=1)
        self.mid = nn.Conv2d(8, 8, 3, padding=1)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        return self.out(F.relu(self.mid(F.relu(self.enc(x))))).squeeze(1)


def blobs(n, size=20):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    c = torch.randint(4, size - 4, (n, 2))
    r = torch.randint(2, 6, (n,))
    d = (yy - c[:, 0, None, None]) ** 2 + (xx - c[:, 1, None, None]) ** 2
    mask = (d <= r[:, None, None] ** 2).float()
    return (mask + 0.6 * torch.randn_like(mask))[:, None], mask


model = TinySeg()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", enabled=True)
PIXEL_WEIGHT = 1e-4
for step in range(150):
    x, m = blobs(8)
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(x)
        loss = PIXEL_WEIGHT * F.binary_cross_entropy_with_logits(logits.float(), m)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    if step % 15 == 0:
        print(f"step {step} loss {loss.item() / PIXEL_WEIGHT:.4f}")
with torch.no_grad():
    x, m = blobs(200)
    pred = (model(x) > 0).float()
    iou = (pred * m).sum() / (pred + m).clamp(max=1).sum()
print(f"validation iou {iou.item():.4f}")
