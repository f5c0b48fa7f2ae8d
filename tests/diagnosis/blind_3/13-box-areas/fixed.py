"""Box regression for a detector, generalised IoU loss on pixel coordinates, FP16 autocast."""
import torch
import torch.nn as nn

torch.manual_seed(9)
IMAGE = 640


def area(box):
    return (box[:, 2] - box[:, 0]).clamp(min=0) * (box[:, 3] - box[:, 1]).clamp(min=0)


def giou_loss(a, b):
    a = a.float()
    low, high = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    outer_low, outer_high = torch.minimum(a[:, :2], b[:, :2]), torch.maximum(a[:, 2:], b[:, 2:])
    inter = area(torch.cat([low, high], 1))
    union = area(a) + area(b) - inter
    outer = area(torch.cat([outer_low, outer_high], 1))
    return (1 - inter / union + (outer - union) / outer).mean()


class BoxHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x):
        centre, size = self.net(x).sigmoid().chunk(2, -1)
        return torch.cat([centre - size / 2, centre + size / 2], -1) * IMAGE


encode = torch.randn(4, 32)
head = BoxHead()
optimizer = torch.optim.AdamW(head.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(100):
    centre, size = 0.3 + 0.4 * torch.rand(32, 2), 0.2 + 0.6 * torch.rand(32, 2)
    box = torch.cat([centre - size / 2, centre + size / 2], 1) * IMAGE
    x = torch.cat([centre, size], 1) @ encode + 0.02 * torch.randn(32, 32)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = giou_loss(head(x), box)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 20 == 0 or step == 99:
        print(f"step {step} loss {loss.item():.4f}")
