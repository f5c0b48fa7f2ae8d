import math
import torch
import torch.nn as nn
from torch.optim import Optimizer

torch.manual_seed(31)


class LeanAdam(Optimizer):
    """Adam whose second moment is kept in a small format with a fixed power-of-two scale."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.95), eps=1e-7, v_dtype=torch.float32, v_scale=2.0 ** 14):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))
        self.v_dtype, self.v_scale = v_dtype, v_scale

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if not st:
                    st["t"] = 0
                    st["m"] = torch.zeros_like(p)
                    st["v"] = torch.zeros_like(p).to(self.v_dtype)
                st["t"] += 1
                st["m"].lerp_(p.grad, 1 - b1)
                v = st["v"].float() / self.v_scale
                v = b2 * v + (1 - b2) * p.grad ** 2
                st["v"] = (v * self.v_scale).clamp(max=5e4).to(self.v_dtype)
                m_hat = st["m"] / (1 - b1 ** st["t"])
                v_hat = v / (1 - b2 ** st["t"])
                p.sub_(group["lr"] * m_hat / (v_hat.sqrt() + group["eps"]))


def field(n):
    p = torch.rand(n, 2) * 2 - 1
    u = torch.sin(3 * p[:, 0]) * torch.cos(2 * p[:, 1]) + 0.3 * torch.sin(7 * p[:, 0] * p[:, 1])
    return p, 3.0 + 2.0 * u[:, None]


class Coordinates(nn.Module):
    def __init__(self, width=64, bands=4):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(bands))
        self.net = nn.Sequential(
            nn.Linear(2 + 4 * bands, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, 1),
        )

    def forward(self, p):
        a = (p[:, :, None] * self.freq).flatten(1)
        return self.net(torch.cat([p, a.sin(), a.cos()], 1))


def main():
    model = Coordinates()
    opt = LeanAdam(model.parameters(), lr=2e-3, v_dtype=torch.float8_e5m2)  # @fault
    pv, uv = field(2000)
    for step in range(1, 501):
        opt.param_groups[0]["lr"] = 2e-3 * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / 500)))
        p, u = field(128)
        loss = ((model(p) - u) ** 2).mean()
        model.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 0 or step == 20:
            with torch.no_grad():
                err = ((model(pv) - uv) ** 2).mean().sqrt().item()
            print(f"step {step} loss {loss.item():.6f} field rmse {err:.5f}")


main()
