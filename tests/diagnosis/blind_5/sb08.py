"""Temperature correction for a hot-oil density probe; the calibration curve is solved in closed form."""
import torch
import torch.nn as nn

torch.manual_seed(0)


def readings(n, gen):
    true_t = 500 + 90 * torch.rand(n, generator=gen)
    env = torch.rand(n, 3, generator=gen) * 2 - 1
    offset = 3 * env[:, 0] + 2 * torch.sin(2 * env[:, 1]) * env[:, 2]
    shown = true_t - offset + 0.05 * torch.randn(n, generator=gen)
    rho = 1000 - 0.15 * (true_t - 487) - 0.0035 * (true_t - 487) ** 2
    return shown, env, rho + 0.02 * torch.randn(n, generator=gen)


def design(t):
    return torch.stack([torch.ones_like(t), t, t * t], 1)


def calibrate(phi, y):
    """Coefficients of the density curve by least squares (normal equations)."""
    a, b = phi, y[:, None]  # @fault
    return torch.linalg.solve(a.T @ a, a.T @ b).to(phi.dtype)


class Correction(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, shown, env):
        return shown + 5 * self.net(env).squeeze(1)


def predict(phi, coef):
    return (phi @ coef).squeeze(1)


@torch.no_grad()
def held_out_error(model, cal, held):
    coef = calibrate(design(model(cal[0], cal[1])), cal[2])
    return (predict(design(model(held[0], held[1])), coef) - held[2]).pow(2).mean().sqrt().item()


def main():
    gen = torch.Generator().manual_seed(9)
    cal, held = readings(1000, gen), readings(1000, gen)
    model = Correction()
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 350, eta_min=5e-5)
    for i in range(350):
        shown, env, rho = readings(256, gen)
        phi = design(model(shown, env))
        loss = (predict(phi, calibrate(phi, rho)) - rho).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if i % 70 == 0 or i == 349:
            print(f"it {i:3d} loss {loss.item():.4f} held-out rms {held_out_error(model, cal, held):.4f} kg/m3")
    print("held-out rms", round(held_out_error(model, cal, held), 4))


if __name__ == "__main__":
    main()
