import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(14)
RELEASE_AT = 300


class Classifier(nn.Module):
    def __init__(self, dim=32, hidden=24, classes=6):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, classes)
        self.register_buffer("num_updates", torch.zeros(()))
        for p in self.backbone.parameters():
            p.requires_grad_(False)

    def forward(self, x):
        return self.head(self.backbone(x))

    def tick(self):
        self.num_updates += 1
        if self.num_updates >= RELEASE_AT:
            for p in self.backbone.parameters():
                p.requires_grad_(True)


teacher = nn.Sequential(nn.Linear(32, 40), nn.Tanh(), nn.Linear(40, 6))
with torch.no_grad():
    for p in teacher.parameters():
        p.mul_(3)


def batch(n):
    x = torch.randn(n, 32)
    with torch.no_grad():
        return x, teacher(x).argmax(1)


model = Classifier()
master = {n: p.detach().float().clone() for n, p in model.named_parameters()}
opt = torch.optim.Adam(master.values(), lr=5e-3)

for step in range(600):
    x, y = batch(128)
    logits = model(x.to(model.head.weight.dtype))
    loss = F.cross_entropy(logits.float(), y)
    model.zero_grad()
    loss.backward()
    for n, p in model.named_parameters():
        master[n].grad = None if p.grad is None else p.grad.float()
    opt.step()
    with torch.no_grad():
        for n, p in model.named_parameters():
            p.copy_(master[n])
    model.tick()
    if step % 60 == 0:
        print(f"step {step} ce {loss.item():.4f}")

with torch.no_grad():
    x, y = batch(4000)
    acc = (model(x.to(model.head.weight.dtype)).argmax(1) == y).float().mean()
print(f"test accuracy {acc.item():.4f}")
