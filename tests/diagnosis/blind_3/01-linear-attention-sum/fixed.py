"""Sequence classification with linear attention (squared ReLU features), FP16 autocast."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
TOKENS, DIM, CLASSES = 128, 32, 4


class LinearAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = F.relu(self.q(x)) ** 2, F.relu(self.k(x)) ** 2, self.v(x)
        with torch.autocast("cpu", enabled=False):
            q, k, v = q.float(), k.float(), v.float()
            context = k.transpose(1, 2) @ v
            total = q @ k.sum(1).unsqueeze(-1)
            return (q @ context) / (total + 1e-3)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, DIM)
        self.attention = LinearAttention(DIM)
        self.out = nn.Linear(DIM, CLASSES)

    def forward(self, ids):
        x = self.embed(ids) * DIM ** 0.5
        x = x + self.attention(x)
        return self.out(F.layer_norm(x.float().mean(1), (DIM,)))


def batch(n):
    y = torch.randint(0, CLASSES, (n,))
    common = torch.randint(0, 16, (n, TOKENS)) + 16 * y[:, None]
    anything = torch.randint(0, 64, (n, TOKENS))
    return torch.where(torch.rand(n, TOKENS) < 0.3, common, anything), y


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for step in range(60):
    ids, y = batch(8)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(ids)
    loss = F.cross_entropy(logits.float(), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 10 == 0 or step == 59:
        print(f"step {step} loss {loss.item():.4f}")
