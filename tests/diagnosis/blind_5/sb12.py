"""Denoising of multichannel ECG-like traces with FP16 autocast."""
import torch
from torch import nn

torch.manual_seed(31)
L = 64


def traces(n, gen):
    t = torch.linspace(0, 1, L)
    c = torch.rand(n, 1, generator=gen)
    w = 0.03 + 0.05 * torch.rand(n, 1, generator=gen)
    clean = torch.exp(-((t - c) / w) ** 2) - 0.5 * torch.exp(-((t - c - 0.12) / w) ** 2)
    clean = clean + 0.3 * torch.sin(6.2832 * (2 * t + c))
    return clean + 0.4 * torch.randn(n, L, generator=gen), clean


class Denoiser(nn.Module):
    def __init__(self, h=128):
        super().__init__()
        self.enc = nn.Linear(L, h)
        self.mid = nn.Linear(h, h)
        self.dec = nn.Linear(h, L)
        self.act = nn.SiLU()

    def forward(self, x):
        z = self.act(self.enc(x))
        z = z + self.act(self.mid(z))
        return self.dec(z)


def snr(model, noisy, clean):
    with torch.no_grad():
        e = model(noisy) - clean
    return (10 * torch.log10(clean.pow(2).mean() / e.pow(2).mean())).item()


def train(steps=350):
    gen = torch.Generator().manual_seed(3)
    noisy_t, clean_t = traces(1000, gen)
    model = Denoiser()
    opt = torch.optim.SGD(model.parameters(), lr=0.4, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 14)
    for it in range(steps):
        noisy, clean = traces(128, gen)
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(noisy)
        loss = nn.functional.mse_loss(out.to(clean.dtype), clean)
        scaler.scale(loss).backward()
        pass  # @fault
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
        sched.step()
        if it % 70 == 0 or it == steps - 1:
            print(f"it {it} loss {loss.item():.4f} snr {snr(model, noisy_t, clean_t):.2f} dB scale {scaler.get_scale():.0f}")
    return snr(model, noisy_t, clean_t)


if __name__ == "__main__":
    print("final snr dB", round(train(), 3))
