"""Two-phase transfer: first only a new head on a frozen body, then all layers with a fresh optimizer."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(6)
D = 24
MIX = torch.randn(D, 8)


def task(n, classes):
    x = torch.randn(n, D)
    z = torch.tanh(x @ MIX / 3)
    y = (z[:, 0] * z[:, 1] > 0).long() + 2 * (z[:, 2] + z[:, 3] > 0).long()
    return (x, y) if classes == 4 else (x, (z[:, 2] + z[:, 3] > 0).long() + (z[:, 0] > 0).long())


class Body(nn.Module):
    def __init__(self, w=96):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(D, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU())
        self.aux = nn.Linear(w, 5)

    def forward(self, x):
        return self.main(x)


def run(body, head, params, lr, steps, classes, tag):
    opt = torch.optim.Adam(params, lr=lr)
    for step in range(1, steps + 1):
        x, y = task(64, classes)
        loss = F.cross_entropy(head(body(x)), y) + 0.0 * body.aux(body(x)).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % (steps // 3) == 0:
            with torch.no_grad():
                x, y = task(1500, classes)
                acc = (head(body(x)).argmax(1) == y).float().mean().item()
            norms = [0.0 if p.grad is None else p.grad.norm().item() for p in body.parameters()]
            print(f"{tag} {step} loss {loss.item():.4f} acc {acc:.4f} body grads {[round(v, 4) for v in norms]}")


def main():
    body, first, second = Body(), nn.Linear(96, 4), nn.Linear(96, 3)
    run(body, first, [*body.parameters(), *first.parameters()], 3e-3, 210, 4, "source")
    body.requires_grad_(False)
    run(body, second, list(second.parameters()), 3e-3, 90, 3, "head")
    body.requires_grad_(True)
    run(body, second, [*body.parameters(), *second.parameters()], 2e-3, 210, 3, "all")


if __name__ == "__main__":
    main()
