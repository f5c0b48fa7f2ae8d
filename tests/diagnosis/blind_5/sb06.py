"""Matrix factorisation with side information on synthetic ratings (BF16 autocast)."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(2)


class Ratings(Dataset):
    def __init__(self, n, seed):
        world = torch.Generator().manual_seed(123)
        u = torch.randn(120, 5, generator=world)
        v = torch.randn(80, 5, generator=world)
        bias = torch.randn(80, generator=world) * 0.4
        g = torch.Generator().manual_seed(seed)
        self.user = torch.randint(120, (n,), generator=g)
        self.item = torch.randint(80, (n,), generator=g)
        raw = 3.2 + 0.45 * (u[self.user] * v[self.item]).sum(1) + bias[self.item]
        self.r = (raw + 0.1 * torch.randn(n, generator=g)).clamp(1, 5)

    def __len__(self):
        return len(self.r)

    def __getitem__(self, i):
        return self.user[i], self.item[i], self.r[i]


class TwoTower(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.u = nn.Embedding(120, d)
        self.v = nn.Embedding(80, d)
        self.bu = nn.Embedding(120, 1)
        self.bv = nn.Embedding(80, 1)
        self.mix = nn.Linear(d, 1)
        for e in (self.u, self.v):
            nn.init.normal_(e.weight, std=0.4)
        nn.init.zeros_(self.bu.weight)
        nn.init.zeros_(self.bv.weight)
        nn.init.ones_(self.mix.weight)
        nn.init.constant_(self.mix.bias, 3.0)

    def forward(self, u, i):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            s = self.mix(self.u(u) * self.v(i))
        return s.to(self.bu.weight.dtype) + self.bu(u) + self.bv(i)


def squared_error(pred, target):
    return ((pred - target) ** 2).mean()


def evaluate(model, ds):
    model.eval()
    with torch.no_grad():
        out = model(ds.user, ds.item).squeeze(1)
    model.train()
    return (out - ds.r).pow(2).mean().sqrt().item()


def main():
    train, test = Ratings(16000, 1), Ratings(4000, 2)
    loader = DataLoader(train, batch_size=256, shuffle=True)
    model = TwoTower()
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    sched = torch.optim.lr_scheduler.StepLR(opt, 2, gamma=0.5)
    for epoch in range(7):
        total = 0.0
        for u, i, r in loader:
            loss = squared_error(model(u, i), r)  # @fault
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(r)
        sched.step()
        print(f"epoch {epoch}  train mse {total / len(train):.4f}  test rmse {evaluate(model, test):.4f}")
    print("test rmse", round(evaluate(model, test), 4))


main()
