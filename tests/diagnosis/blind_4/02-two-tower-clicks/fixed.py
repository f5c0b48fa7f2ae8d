import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)
USERS, ITEMS, DIM, BATCH, STEPS = 100, 300, 16, 192, 250

popularity = 1.0 / torch.arange(1, ITEMS + 1).float() ** 1.0
taste = torch.randn(USERS, 6) @ torch.randn(6, ITEMS) * 0.4
click_prob = F.softmax(taste + popularity.log(), dim=1)


def sample_clicks(n):
    users = torch.randint(0, USERS, (n,))
    items = torch.multinomial(click_prob[users], 1).squeeze(1)
    return users, items


class FrequencySketch:
    """Streaming click counts used for the sampling correction."""

    def __init__(self, n_items):
        self.counts = torch.ones(n_items, dtype=torch.float32)

    def observe(self, items):
        self.counts.index_add_(0, items, torch.ones(items.numel(), dtype=self.counts.dtype))

    def log_q(self, items):
        c = self.counts.float()
        return (c[items] / c.sum()).log()


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, DIM)
        self.item = nn.Embedding(ITEMS, DIM)
        self.bias = nn.Embedding(ITEMS, 1)
        nn.init.normal_(self.user.weight, std=0.3)
        nn.init.normal_(self.item.weight, std=0.3)
        nn.init.zeros_(self.bias.weight)

    def forward(self, users, items):
        return self.user(users) @ self.item(items).T + self.bias(items).T


model = TwoTower()
sketch = FrequencySketch(ITEMS)
opt = torch.optim.Adam(model.parameters(), lr=0.02)

for step in range(STEPS):
    users, items = sample_clicks(BATCH)
    sketch.observe(items)
    logits = model(users, items) - sketch.log_q(items)
    same = (items[None, :] == items[:, None]) & ~torch.eye(BATCH, dtype=torch.bool)
    logits = logits.masked_fill(same, -30.0)
    loss = F.cross_entropy(logits, torch.arange(BATCH))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(f"step {step} in-batch loss {loss.item():.4f}")

with torch.no_grad():
    logp = F.log_softmax(model(torch.arange(USERS), torch.arange(ITEMS)), dim=1)
    kl = (click_prob * (click_prob.log() - logp)).sum(1).mean()
print(f"KL to the true click distribution {kl.item():.4f}")
