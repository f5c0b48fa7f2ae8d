import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(36)
WRITERS, FEAT = 40, 20
style = torch.randn(WRITERS, FEAT)


class SignatureNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FEAT, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, x):
        return self.net(x)


def pairs(n):
    a, b = torch.randint(0, WRITERS, (n,)), torch.randint(0, WRITERS, (n,))
    same = torch.rand(n) < 0.5
    b = torch.where(same, a, b)
    xa, xb = style[a] + 0.4 * torch.randn(n, FEAT), style[b] + 0.4 * torch.randn(n, FEAT)
    duplicate = same & (torch.rand(n) < 0.003)
    xb = torch.where(duplicate[:, None], xa, xb)
    return xa, xb, (a == b).float()


def contrastive(ea, eb, same, margin=2.0):
    dist = ((ea - eb).pow(2).sum(1) + 1e-6).sqrt()
    return (same * dist.pow(2) + (1 - same) * F.relu(margin - dist).pow(2)).mean()


model = SignatureNet()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(250):
    xa, xb, same = pairs(64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ea, eb = model(xa), model(xb)
    loss = contrastive(ea.float(), eb.float(), same)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    xa, xb, same = pairs(2000)
    d = (model(xa) - model(xb)).norm(dim=1)
    acc = ((d < 1.0).float() == same).float().mean()
print(f"verification accuracy {acc.item():.4f}")
