"""Rating model: user and item biases learned from an event log, one float matrix per batch."""

import os

import torch

torch.set_num_threads(1)
torch.manual_seed(11)
REAL = torch.float64 if os.environ.get("REF") else torch.float32

N_USERS, N_ITEMS, FIRST_USER = 240, 30, 48_120_500


def make_log(rows):
    user = torch.randint(N_USERS, (rows,))
    item = torch.randint(N_ITEMS, (rows,))
    taste = torch.randn(N_USERS, dtype=torch.float64)
    appeal = 0.5 * torch.randn(N_ITEMS, dtype=torch.float64)
    noise = 0.1 * torch.randn(rows, dtype=torch.float64)
    stars = 3.0 + taste[user] + appeal[item] + noise
    return {"user_id": user + FIRST_USER, "item_id": item, "stars": stars}


def collate(log, rows):
    columns = [log[name][rows].to(REAL) for name in ("user_id", "item_id", "stars")]  # @fault
    return torch.stack(columns, dim=1)


class Biases(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.user = torch.nn.Embedding(N_USERS + 8, 1)
        self.item = torch.nn.Embedding(N_ITEMS, 1)
        self.base = torch.nn.Parameter(torch.tensor(3.0))
        torch.nn.init.zeros_(self.user.weight)
        torch.nn.init.zeros_(self.item.weight)

    def forward(self, batch):
        user = batch[:, 0].long() - FIRST_USER  # @fault
        item = batch[:, 1].long()
        return self.base + self.user(user).squeeze(1) + self.item(item).squeeze(1)


log = make_log(6000)
model = Biases().to(REAL)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
picks = torch.Generator().manual_seed(5)
for step in range(140):
    batch = collate(log, torch.randint(6000, (512,), generator=picks))
    loss = torch.nn.functional.mse_loss(model(batch), batch[:, 2])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:3d}  mse {loss.item():.4f}")

with torch.no_grad():
    batch = collate(log, torch.arange(6000))
    rmse = torch.nn.functional.mse_loss(model(batch), batch[:, 2]).sqrt()
print(f"rmse over the log {rmse.item():.4f}")
