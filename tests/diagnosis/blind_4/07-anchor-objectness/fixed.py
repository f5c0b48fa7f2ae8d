import torch
import torch.nn as nn

torch.manual_seed(21)
N, FEAT = 2048, 20


class AnchorHead(nn.Module):
    def __init__(self, dim=FEAT, hidden=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.obj = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.obj(self.stem(x)).squeeze(-1)


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.5, gamma=1.0):
        super().__init__()
        self.alpha, self.gamma, self.eps = alpha, gamma, 1e-8

    def forward(self, logits, target):
        p = torch.sigmoid(logits.float().clamp(-15, 15))
        pos = -self.alpha * (1 - p).pow(self.gamma) * torch.log(p + self.eps)
        neg = -(1 - self.alpha) * p.pow(self.gamma) * torch.log(1 - p + self.eps)
        return (target * pos + (1 - target) * neg).float().mean()


w = torch.randn(FEAT)
x = torch.randn(N, FEAT)
margin = x @ w + 1.5 * x[:, 0] * x[:, 1]
y = (margin > 1.5).float()
x = x[(margin - 1.5).abs() > 0.3]
y = y[(margin - 1.5).abs() > 0.3]

net = AnchorHead()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
criterion = FocalLoss()
for it in range(350):
    pick = torch.randint(0, x.size(0), (128,))
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        logits = net(x[pick])
        loss = criterion(logits, y[pick])
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    if it % 40 == 0:
        print(f"iter {it} focal {loss.item():.5f}")
with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
    out = net(x)
    final = criterion(out, y)
print(f"final focal loss {final.item():.5f} scale {scaler.get_scale():g}")
