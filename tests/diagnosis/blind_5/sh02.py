"""Charged particles: learn a pair potential from energies and forces (autograd forces)."""
import torch
from torch import nn

torch.manual_seed(14)
NP = 5


def distances(x):
    eye = torch.eye(NP, dtype=torch.bool)
    d2 = (x[:, :, None] - x[:, None]).pow(2).sum(-1)
    safe = torch.where(eye, torch.ones_like(d2), d2)
    return safe.sqrt(), ~eye


def reference(x):
    r, off = distances(x)
    pair = torch.where(off, torch.exp(-r) + 0.5 / (r + 0.3), torch.zeros_like(r))
    return 0.5 * pair.sum((1, 2))


class PairPotential(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Softplus(), nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 1))

    def forward(self, x):
        r, off = distances(x)
        e = self.net(torch.log(r).unsqueeze(-1)).squeeze(-1)
        e = e.masked_fill(~off, 0.0)
        return 0.5 * e.sum((1, 2))


def with_forces(fn, x, create_graph):
    x = x.detach().requires_grad_(True)
    e = fn(x)
    f, = torch.autograd.grad(-e.sum(), x, create_graph=create_graph)
    return e, f


def main():
    gen = torch.Generator().manual_seed(4)
    model = PairPotential()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 300, eta_min=1e-8)
    test = torch.rand(200, NP, 3, generator=gen) * 2
    te, tf = with_forces(reference, test, False)
    for i in range(300):
        x = torch.rand(48, NP, 3, generator=gen) * 2
        e0, f0 = with_forces(reference, x, False)
        e, f = with_forces(model, x, True)
        loss = (e - e0.detach()).pow(2).mean() + 3 * (f - f0).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if i % 60 == 0 or i == 299:
            e, f = with_forces(model, test, False)
            print(f"{i}: loss {loss.item():.5f} energy mae {(e - te).abs().mean().item():.4f} force mae {(f - tf).abs().mean().item():.4f}")
    print("force mae", round((f - tf).abs().mean().item(), 5), "typical force", round(tf.abs().mean().item(), 4))


if __name__ == "__main__":
    main()
