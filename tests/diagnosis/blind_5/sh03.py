# Load forecasting with BF16 weights; the optimizer rounds stochastically
import torch
from torch import nn

torch.manual_seed(18)


class StochasticBF16Adam(torch.optim.Optimizer):
    """Adam with FP32 moments; the new weight is rounded up or down at random."""

    def __init__(self, params, lr, betas=(0.9, 0.99), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @staticmethod
    def round_(dst, src):
        bits = src.view(torch.int32)
        bits = bits + torch.randint_like(bits, 0, 1 << 16)
        dst.copy_((bits & -65536).view(torch.float32))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            b1, b2 = g["betas"]
            for p in g["params"]:
                st = self.state[p]
                if not st:
                    st["t"] = 0
                    st["m"] = torch.zeros_like(p, dtype=torch.float32)
                    st["v"] = torch.zeros_like(p, dtype=torch.float32)
                st["t"] += 1
                gr = p.grad.float()
                st["m"].lerp_(gr, 1 - b1)
                st["v"].mul_(b2).addcmul_(gr, gr, value=1 - b2)
                m = st["m"] / (1 - b1 ** st["t"])
                v = st["v"] / (1 - b2 ** st["t"])
                self.round_(p, p.float() - g["lr"] * m / (v.sqrt() + g["eps"]))


def load_curve(n):
    g = torch.Generator().manual_seed(1)
    t = torch.arange(n).float()
    y = torch.sin(t * 0.2618) + 0.4 * torch.sin(t * 0.0374) + 0.3 * torch.cos(t * 0.5236)
    return y + 0.1 * torch.randn(n, generator=g)


series = load_curve(6000)
win = series.unfold(0, 49, 1)
x, y = win[:, :48], win[:, 48:]
model = nn.Sequential(nn.Linear(48, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 1)).to(torch.bfloat16)
opt = StochasticBF16Adam(model.parameters(), lr=1e-3)
gen = torch.Generator().manual_seed(2)
for it in range(500):
    opt.param_groups[0]["lr"] = 1e-3 * (1 - it / 500) ** 2
    i = torch.randint(4800, (96,), generator=gen)
    out = model(x[i].bfloat16()).float()
    loss = (out - y[i]).pow(2).mean()
    model.zero_grad()
    loss.backward()
    opt.step()
    if it % 100 == 0 or it == 499:
        with torch.no_grad():
            rmse = (model(x[4900:].bfloat16()).float() - y[4900:]).pow(2).mean().sqrt().item()
        print(f"{it} loss {loss.item():.4f} test rmse {rmse:.4f}")
print("test rmse", round(rmse, 4), "(noise 0.1, naive", round((y[4900:, 0] - x[4900:, -1]).pow(2).mean().sqrt().item(), 3), ")")
