import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(35)
ANCHORS = 6


class BoxHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(16, 48), nn.ReLU())
        self.box = nn.Linear(48, ANCHORS * 4)
        self.cls = nn.Linear(48, ANCHORS)

    def forward(self, x):
        h = self.stem(x)
        return self.box(h).view(-1, ANCHORS, 4), self.cls(h)


w_box, w_cls = torch.randn(16, ANCHORS * 4) * 0.2, torch.randn(16, ANCHORS) * 0.4


def images(n):
    x = torch.randn(n, 16)
    positive = (x @ w_cls + 0.8 > 0)
    return x, (x @ w_box).view(n, ANCHORS, 4), positive


def box_loss(pred, boxes, positive):
    per_anchor = F.smooth_l1_loss(pred, boxes, reduction="none").sum(-1)
    matched = positive.float()
    per_image = (per_anchor * matched).sum(1)
    return (per_image / matched.sum(1)).mean()  # @fault


model = BoxHead()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(200):
    x, boxes, positive = images(32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pred, cls = model(x)
    loss = box_loss(pred.float(), boxes, positive) + F.binary_cross_entropy_with_logits(cls.float(), positive.float())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    x, boxes, positive = images(1000)
    pred, cls = model(x)
    err = (pred - boxes).abs().mean(-1)[positive].mean()
print(f"box error on matched anchors {err.item():.4f}")
