import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(24)
UTTS, FRAMES, MELS, PHONES = 64, 1200, 10, 8
centres = torch.randn(PHONES, MELS) * 1.2


class FrameClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(MELS, 16), nn.ReLU(), nn.Linear(16, PHONES))

    def forward(self, x):
        return self.net(x)


def utterances():
    y = torch.randint(0, PHONES, (UTTS, FRAMES))
    x = centres[y] + 0.8 * torch.randn(UTTS, FRAMES, MELS)
    lengths = torch.randint(1080, FRAMES + 1, (UTTS,))
    mask = torch.arange(FRAMES)[None] < lengths[:, None]
    return x, y, mask


def masked_loss(logits, y, mask):
    ce = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view_as(y)
    valid = mask.float()
    return (ce * valid).sum() / valid.sum()


model = FrameClassifier()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(80):
    x, y, mask = utterances()
    loss = masked_loss(model(x), y, mask)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 8 == 0:
        print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    x, y, mask = utterances()
    acc = (model(x).argmax(-1) == y)[mask].float().mean()
print(f"frame accuracy {acc.item():.4f}")
