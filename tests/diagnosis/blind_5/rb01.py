"""Denoising autoencoder on small stripe pictures; trained in two jobs with a checkpoint between them."""
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)
SIDE = 14


def pictures(n):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, SIDE), torch.linspace(-1, 1, SIDE), indexing="ij")
    ang, freq, phase = torch.rand(3, n, 1, 1)
    wave = torch.sin((xx * (ang * 6.28).cos() + yy * (ang * 6.28).sin()) * (2 + freq) + phase * 6.28)
    return (0.5 + 0.4 * wave).flatten(1)


class AutoEncoder(nn.Module):
    def __init__(self, hidden=96, code=12):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(SIDE * SIDE, hidden), nn.GELU(), nn.Linear(hidden, code))
        self.dec = nn.Sequential(nn.Linear(code, hidden), nn.GELU(), nn.Linear(hidden, SIDE * SIDE))

    def forward(self, x):
        return torch.sigmoid(self.dec(self.enc(x)))


VAL = pictures(512)


@torch.no_grad()
def psnr(model):
    return -10 * torch.log10(F.mse_loss(model(VAL), VAL)).item()


def compact(obj):
    if torch.is_tensor(obj):
        return obj.half() if obj.is_floating_point() and obj.dim() else obj
    if isinstance(obj, dict):
        return {k: compact(v) for k, v in obj.items()}
    if isinstance(obj, list):
        return [compact(v) for v in obj]
    return obj


def save(path, model, opt, step):
    moments = compact(opt.state_dict())  # @fault
    torch.save({"model": model.state_dict(), "opt": moments, "step": step}, path)


def rate(step, total=400, top=2e-3):
    return top * min(1.0, (step + 1) / 30) * (1 if step < 0.5 * total else 0.4)


def job(path, until):
    model = AutoEncoder()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    step, trace = 0, []
    if os.path.exists(path):
        ck = torch.load(path)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        step = ck["step"]
        print(f"resumed at {step}, val PSNR {psnr(model):.2f} dB")
    while step < until:
        for g in opt.param_groups:
            g["lr"] = rate(step)
        x = pictures(48)
        loss = F.mse_loss(model(x + 0.05 * torch.randn_like(x)), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        trace.append(loss.item())
        if step % 60 == 0 or step in (362, 364, 370, 380, 400):
            print(f"step {step} loss {sum(trace[-5:]) / len(trace[-5:]):.5f} val PSNR {psnr(model):.2f} dB")
    save(path, model, opt, step)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as d:
        p = os.path.join(d, "ck.pt")
        job(p, 360)
        job(p, 400)
