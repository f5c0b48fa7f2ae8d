"""Self-supervised pretraining with an online and an averaged network, then a linear probe."""

import copy
import os

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(47)
REF = bool(os.environ.get("REF"))

FEATURES, CLASSES, STEPS = 32, 6, 150


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Linear(h, o))


class Learner(nn.Module):
    def __init__(self, tau=0.99):
        super().__init__()
        self.tau = tau
        self.online = nn.Sequential(mlp(FEATURES, 64, 32), mlp(32, 64, 16))
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.predict = mlp(16, 32, 16)

    def side(self, a, b):
        p = self.predict(self.online(a))
        with torch.no_grad():
            z = self.target(b)
        return 2 - 2 * F.cosine_similarity(p.float(), z.float(), dim=-1).mean()

    def forward(self, a, b):
        return (self.side(a, b) + self.side(b, a)) / 2

    @torch.no_grad()
    def follow(self):
        for t, o in zip(self.target.parameters(), self.online.parameters(), strict=True):
            t.lerp_(o, 1 - self.tau)


gen = torch.Generator().manual_seed(5)
MEANS = 0.9 * torch.randn(CLASSES, 8, generator=gen)
MIX = torch.randn(8, FEATURES, generator=gen) / 8**0.5


LIGHT = torch.randn(6, FEATURES, generator=gen)


def source(n):
    y = torch.randint(0, CLASSES, (n,), generator=gen)
    return (MEANS[y] + 0.35 * torch.randn(n, 8, generator=gen)) @ MIX, y


def view(x):
    x = x + 1.5 * torch.randn(len(x), len(LIGHT), generator=gen) @ LIGHT
    return x + 0.1 * torch.randn(x.shape, generator=gen)


def probe(encoder):
    encoder.eval()
    (x, y), (x_t, y_t) = source(200), source(1200)
    with torch.no_grad():
        z, z_t = encoder(view(x)), encoder(view(x_t))
    encoder.train()
    ones = torch.ones(len(z), 1)
    a = torch.cat([z, ones], 1)
    w = torch.linalg.solve(a.T @ a + 1e-2 * torch.eye(a.shape[1]), a.T @ F.one_hot(y).float())
    guess = (torch.cat([z_t, torch.ones(len(z_t), 1)], 1) @ w).argmax(-1)
    return (guess == y_t).double().mean().item()


model = Learner()
opt = torch.optim.AdamW(
    [*model.online.parameters(), *model.predict.parameters()], lr=2e-3, weight_decay=1e-4
)
print(f"probe before {probe(model.online):.4f}")
for step in range(STEPS):
    x, _ = source(128)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not REF):
        loss = model(view(x), view(x))
    opt.zero_grad()
    loss.backward()
    opt.step()
    model.follow()
    if step % 30 == 0 or step == STEPS - 1:
        with torch.no_grad():
            spread = F.normalize(model.online(x), dim=-1).std(0).mean().item()
        print(f"step {step} loss {loss.item():.4f} spread {spread:.4f}")
print(f"probe after {probe(model.online):.4f}")
