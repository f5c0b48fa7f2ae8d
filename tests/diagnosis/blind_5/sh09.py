"""Identify a linear mechanical system; without noise the loss runs down to rounding."""
import torch
from torch import nn

torch.manual_seed(50)
DIM, INP = 6, 3


def true_system():
    g = torch.Generator().manual_seed(2)
    a = torch.randn(DIM, DIM, generator=g)
    a = 0.9 * a / torch.linalg.matrix_norm(a, 2)
    return a, torch.randn(DIM, INP, generator=g)


A, B = true_system()


def rollouts(n, horizon, gen):
    x = torch.randn(n, DIM, generator=gen)
    xs, us = [x], []
    for _ in range(horizon):
        u = torch.randn(n, INP, generator=gen)
        x = x @ A.T + u @ B.T
        xs.append(x)
        us.append(u)
    return torch.stack(xs, 1), torch.stack(us, 1)


class LinearModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(DIM, DIM, bias=False)
        self.b = nn.Linear(INP, DIM, bias=False)

    def forward(self, x0, u):
        x, out = x0, []
        for t in range(u.shape[1]):
            x = self.a(x) + self.b(u[:, t])
            out.append(x)
        return torch.stack(out, 1)


def main():
    gen = torch.Generator().manual_seed(1)
    model = LinearModel()
    opt = torch.optim.Adam(model.parameters(), lr=5e-2, betas=(0.9, 0.98))
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    for i in range(600):
        xs, us = rollouts(48, 6, gen)
        loss = (model(xs[:, 0], us) - xs[:, 1:]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if i % 100 == 0 or i == 599:
            gn = torch.stack([p.grad.norm() for p in model.parameters()]).norm().item()
            print(f"{i}: loss {loss.item():.3e} grad {gn:.2e} lr {sched.get_last_lr()[0]:.1e}")
    err = (model.a.weight - A).abs().max().item()
    print("largest error of A", err, "of B", (model.b.weight - B).abs().max().item())


if __name__ == "__main__":
    main()
