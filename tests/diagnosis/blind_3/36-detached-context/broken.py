"""Two-branch model: a query is judged in the context of a set."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(31)


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.context = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3))
        self.query = nn.Linear(6, 24)
        self.out = nn.Sequential(nn.Linear(27, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, query, others):
        pooled = self.context(others).mean(1)
        pooled = pooled.data.clamp(-5, 5)  # @fault
        return self.out(torch.cat([self.query(query), pooled], -1)).squeeze(-1)


model = Judge()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
before = model.context[0].weight.detach().clone()
for step in range(120):
    others = torch.randn(128, 8, 6) + torch.randn(128, 1, 6)
    query = torch.randn(128, 6)
    y = others.abs().mean(1)[:, :3].sum(1) * 2 + query[:, 0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prediction = model(query, others)
    loss = F.mse_loss(prediction.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == 119:
        moved = (model.context[0].weight - before).abs().max().item()
        print(f"step {step} loss {loss.item():.4f} context encoder moved by {moved:.4f}")
