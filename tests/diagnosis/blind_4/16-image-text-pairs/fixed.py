import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(15)
LATENT = 10


class Tower(nn.Module):
    def __init__(self, dim, out=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, out))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class PairModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = Tower(40), Tower(30)
        self.temperature = 0.07

    def loss(self, a, b):
        sim = self.image(a).half() @ self.text(b).half().T
        pos = torch.exp(sim.diagonal().float() / self.temperature)
        total = torch.exp(sim.float() / self.temperature).sum(1)
        return -(pos / total).log().float().mean()


to_img, to_txt = torch.randn(LATENT, 40), torch.randn(LATENT, 30)


def pairs(n):
    z = torch.randn(n, LATENT)
    return z @ to_img + 0.1 * torch.randn(n, 40), z @ to_txt + 0.1 * torch.randn(n, 30)


model = PairModel()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(300):
    a, b = pairs(64)
    loss = model.loss(a, b)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(f"step {step} info-nce {loss.item():.4f}")
with torch.no_grad():
    a, b = pairs(500)
    hit = ((model.image(a) @ model.text(b).T).argmax(1) == torch.arange(500)).float().mean()
print(f"retrieval at 1 {hit.item():.4f}")
