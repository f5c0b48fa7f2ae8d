import torch
import torch.nn as nn

torch.manual_seed(34)
WINDOW = 16


class LevelGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 16, batch_first=True)
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.head(h[:, -1])


def series(n):
    level = torch.zeros(n)
    for t in range(2, n):
        level[t] = 1.6 * level[t - 1] - 0.8 * level[t - 2] + 0.3 * torch.randn(())
    return level / level.std()


level = series(1500)
win = level.unfold(0, WINDOW + 1, 1)
inputs, target = win[:, :-1, None], win[:, -1]
model = LevelGRU()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(150):
    pick = torch.randint(0, 1200, (64,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pred = model(inputs[pick])
    loss = (pred.float() - target[pick]).pow(2).mean()  # @fault
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 15 == 0:
        print(f"step {step} mse {loss.item():.4f}")
with torch.no_grad():
    mse = (model(inputs[1200:]).squeeze(-1) - target[1200:]).pow(2).mean()
print(f"forecast mse {mse.item():.4f}")
