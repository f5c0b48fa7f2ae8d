import torch
import torch.nn as nn

torch.manual_seed(40)
TREES, LEAVES = 8, 8


class SoftForest(nn.Module):
    """Each tree mixes its leaf values with a learned gate."""

    def __init__(self, cols=10):
        super().__init__()
        self.gate = nn.Linear(cols, TREES * LEAVES)
        self.leaf = nn.Parameter(torch.randn(TREES, LEAVES) * 0.1)

    def forward(self, x):
        w = torch.softmax(self.gate(x).view(-1, TREES, LEAVES).float(), dim=-1)
        return (w * self.leaf).sum((1, 2))


class Houses:
    def __init__(self, n, coef):
        self.x = torch.randn(n, 10)
        self.price = torch.tanh(self.x @ coef * 0.5) + 0.3 * (self.x[:, 0] > 0.5).float()

    def epoch(self, batch):
        order = torch.randperm(self.x.size(0))
        x = self.x[order]
        price = self.price  # @fault
        return zip(x.split(batch), price.split(batch))


coef = torch.randn(10)
train, test = Houses(1600, coef), Houses(2000, coef)
model = SoftForest()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(10):
    total, count = 0.0, 0
    for x, y in train.epoch(64):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            pred = model(x)
        loss = nn.functional.mse_loss(pred, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total, count = total + loss.item(), count + 1
    print(f"epoch {epoch} train mse {total / count:.4f}")
with torch.no_grad():
    mse = nn.functional.mse_loss(model(test.x), test.price)
print(f"test mse {mse.item():.4f} variance {test.price.var().item():.4f}")
