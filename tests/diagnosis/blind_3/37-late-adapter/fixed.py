"""Adapters on a frozen body."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(32)


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(24, 24) for _ in range(3)])
        self.adapters = nn.ModuleList()
        self.head = nn.Linear(24, 4)

    def add_adapters(self, rank=8):
        for _ in self.layers:
            down, up = nn.Linear(24, rank, bias=False), nn.Linear(rank, 24, bias=False)
            nn.init.zeros_(up.weight)
            self.adapters.append(nn.Sequential(down, nn.ReLU(), up))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            h = torch.tanh(layer(x))
            x = h + self.adapters[i](x) if len(self.adapters) else h
        return self.head(x)


model = Body()
model.layers.requires_grad_(False)
model.add_adapters()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
for step in range(120):
    x = torch.randn(64, 24)
    y = (x[:, 0] > 0).long() * 2 + (x[:, 1] * x[:, 2] > 0).long()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    model.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == 119:
        print(f"step {step} loss {loss.item():.4f} largest adapter weight {max(a[2].weight.abs().max().item() for a in model.adapters):.4f}")
