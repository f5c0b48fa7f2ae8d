"""Bearing wear regression from vibration spectra; the job is pre-empted and resumed."""
import os
import tempfile
import torch
from torch import nn

torch.manual_seed(4)


def vibration(n, seed):
    g = torch.Generator().manual_seed(seed)
    wear = torch.rand(n, 1, generator=g)
    t = torch.linspace(0, 1, 128)
    f = 6 + 10 * wear
    x = torch.sin(6.2832 * f * t + 6.2832 * torch.rand(n, 1, generator=g))
    x = x + wear * 0.7 * torch.sin(6.2832 * 3 * f * t) + 0.3 * torch.randn(n, 128, generator=g)
    return torch.log1p(torch.fft.rfft(x).abs()), wear


class WearNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(65, 96), nn.GELU(), nn.LayerNorm(96),
                                 nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 1))

    def forward(self, x):
        return self.net(x)


def compact(obj):
    """Optimizer moments take two thirds of the file, so they are stored small."""
    small = torch.float16  # @fault
    if torch.is_tensor(obj):
        return obj.to(small) if obj.is_floating_point() else obj
    if isinstance(obj, dict):
        return {k: compact(v) for k, v in obj.items()}
    if isinstance(obj, list):
        return [compact(v) for v in obj]
    return obj


def save(path, model, opt, step):
    torch.save({"model": model.state_dict(), "opt": compact(opt.state_dict()), "step": step}, path)


def load(path, model, opt):
    ck = torch.load(path)
    model.load_state_dict(ck["model"])
    opt.load_state_dict(ck["opt"])
    return ck["step"]


def build():
    m = WearNet()
    return m, torch.optim.Adam(m.parameters(), lr=1e-3)


def run(path, until, data, val):
    model, opt = build()
    step = load(path, model, opt) if os.path.exists(path) else 0
    x, y = data
    gen = torch.Generator().manual_seed(step)
    while step < until:
        idx = torch.randint(len(x), (128,), generator=gen)
        for group in opt.param_groups:
            group["lr"] = 1e-3 * (0.93 ** max(0, step - 300))
        loss = 0.02 * nn.functional.mse_loss(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 60 == 0 or step in (301, 305, 320, 340):
            with torch.no_grad():
                rmse = nn.functional.mse_loss(model(val[0]), val[1]).sqrt().item()
            print(f"step {step}  loss {loss.item():.3e}  val rmse {rmse:.5f}")
    save(path, model, opt, step)
    return rmse


if __name__ == "__main__":
    data, val = vibration(6000, 1), vibration(1500, 2)
    with tempfile.TemporaryDirectory() as d:
        ck = os.path.join(d, "last.pt")
        run(ck, 300, data, val)
        print("resuming from", os.path.basename(ck))
        final = run(ck, 340, data, val)
    print("final val rmse", round(final, 6))
