"""Attention pooling over sets of different size; the pooled vector decides the class."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(2)
ITEMS, DIM = 12, 24
direction = torch.randn(5, DIM)


def batch(n=64):
    y = torch.randint(0, 5, (n,))
    size = torch.randint(0, ITEMS + 1, (n,))
    valid = torch.arange(ITEMS)[None, :] < size[:, None]
    x = direction[y][:, None] * 0.5 + torch.randn(n, ITEMS, DIM)
    return x * valid[..., None], valid, y


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(DIM, 32), nn.Tanh(), nn.Linear(32, 1))
        self.value = nn.Linear(DIM, 48)
        self.head = nn.Linear(48, 5)

    def forward(self, x, valid):
        score = self.score(x).squeeze(-1)
        bias = (1.0 - valid.to(score.dtype)) * -1e5  # @fault
        weight = (score + bias).softmax(-1)
        pooled = (weight[..., None] * self.value(x)).sum(1)
        return self.head(F.gelu(pooled))


model = Pool()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
for step in range(90):
    x, valid, y = batch()
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(x, valid)
        loss = F.cross_entropy(logits, y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    if step % 15 == 0 or step == 89:
        print(f"step {step} loss {loss.item():.4f} scale {scaler.get_scale():g}")
