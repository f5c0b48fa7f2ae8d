"""Spectral line fitting with FP16 autocast; the scaler starts high and finds its scale."""
import torch
from torch import nn

torch.manual_seed(3)


def spectra(n, gen):
    w = torch.linspace(-1, 1, 80)
    c = torch.rand(n, 1, generator=gen) * 1.2 - 0.6
    s = 0.05 + 0.1 * torch.rand(n, 1, generator=gen)
    x = torch.exp(-0.5 * ((w - c) / s) ** 2) + 0.05 * torch.randn(n, 80, generator=gen)
    return x, torch.cat([c, 5 * s], 1)


class Fitter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(80, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU())
        self.head = nn.Linear(96, 2)

    def forward(self, x):
        return self.head(self.body(x))


def main(steps=350):
    gen = torch.Generator().manual_seed(0)
    xt, yt = spectra(1000, gen)
    model = Fitter()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 30, growth_interval=60)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    skipped = 0
    for it in range(steps):
        x, y = spectra(128, gen)
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x)
        loss = nn.functional.mse_loss(out.float(), y)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        before = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() < before:
            skipped += 1
        else:
            sched.step()
        if it < 20 and it % 4 == 0 or it % 70 == 0 or it == steps - 1:
            print(f"it {it} loss {loss.item():.5f} grad norm {norm.item():.3e} scale 2^{torch.tensor(before).log2().item():.0f} skipped {skipped}")
    with torch.no_grad():
        err = (model(xt) - yt).abs().mean(0)
    print("mae centre", round(err[0].item(), 5), "mae width", round(err[1].item() / 5, 5))


if __name__ == "__main__":
    main()
