"""Training with drawn-by-weight items: a small price model over a catalogue, weights follow the number of views."""
import torch
import torch.nn as nn

torch.manual_seed(12)
N, D = 24000, 10


def catalogue():
    x = torch.randn(N, D)
    # sorted by supplier, suppliers have different price rules
    supplier = torch.arange(N) * 12 // N
    rule = torch.randn(12, D)
    y = torch.tanh((x * rule[supplier]).sum(1)) + 0.4 * torch.sin(2 * x[:, 0]) + 0.5 * torch.randn(N)
    views = 1 + torch.poisson(torch.full((N,), 6.0))
    return x, supplier, y, views


class WeightedDraw:
    """Inverse-CDF sampling; the cumulative table is built once."""

    def __init__(self, weights, dtype=torch.float64):
        cdf = torch.cumsum(weights.double() / weights.double().sum(), 0)
        self.cdf = cdf.to(dtype)

    def __call__(self, n):
        u = torch.rand(n, dtype=torch.float64).clamp_max(1 - 1e-12)
        return torch.searchsorted(self.cdf.double(), u).clamp_max(len(self.cdf) - 1)


class Price(nn.Module):
    def __init__(self):
        super().__init__()
        self.sup = nn.Embedding(12, 16)
        self.net = nn.Sequential(nn.Linear(D + 16, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 1))

    def forward(self, x, s):
        return self.net(torch.cat([x, self.sup(s)], 1))[:, 0]


def main():
    x, s, y, views = catalogue()
    perm = torch.rand(N) < 0.1
    test = perm.nonzero().flatten()
    train = (~perm).nonzero().flatten()
    draw = WeightedDraw(views[train], dtype=torch.bfloat16)  # @fault
    net = Price()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    run = None
    for step in range(1, 601):
        i = train[draw(128)]
        loss = ((net(x[i], s[i]) - y[i]) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        run = loss.item() if run is None else 0.95 * run + 0.05 * loss.item()
        if step % 100 == 0:
            with torch.no_grad():
                mse = ((net(x[test], s[test]) - y[test]) ** 2).mean().item()
            print(f"step {step} train mse {run:.4f} held-out mse {mse:.4f}")


if __name__ == "__main__":
    main()
