"""Two simulated workers train a drag surrogate and exchange 8-bit gradients."""
import torch
from torch import nn

torch.manual_seed(8)


def drag_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 5, generator=g) * 2 - 1
    re = x[:, 0] * 2 + 3
    cd = 0.4 + 0.24 * torch.exp(-re / 2) + 0.1 * torch.sin(3 * x[:, 1]) * x[:, 2] + 0.07 * x[:, 3] ** 2
    return x, cd.unsqueeze(1) + 0.002 * torch.randn(n, 1, generator=g)


class Wire:
    """Payload of one gradient bucket."""
    fmt = torch.float8_e4m3fn
    top = 448.0

    @staticmethod
    def pack(t):
        scale = torch.ones(())  # @fault
        return (t * scale).clamp(-Wire.top, Wire.top).to(Wire.fmt), scale

    @staticmethod
    def unpack(q, scale):
        return q.to(torch.get_default_dtype()) / scale


def worker_grads(model, x, y):
    loss = nn.functional.mse_loss(model(x), y)
    grads = torch.autograd.grad(loss, list(model.parameters()))
    return loss.detach(), [Wire.pack(gr) for gr in grads]


def all_reduce(payloads):
    out = []
    for parts in zip(*payloads):
        out.append(sum(Wire.unpack(q, s) for q, s in parts) / len(parts))
    return out


def train():
    model = nn.Sequential(nn.Linear(5, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 1))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 500)
    xs, ys = drag_data(8192, 1)
    xt, yt = drag_data(2048, 2)
    gen = torch.Generator().manual_seed(77)
    for it in range(500):
        payloads, losses = [], []
        for w in range(2):
            idx = torch.randint(4096, (128,), generator=gen) + 4096 * w
            l, p = worker_grads(model, xs[idx], ys[idx])
            losses.append(l)
            payloads.append(p)
        for p, gr in zip(model.parameters(), all_reduce(payloads)):
            p.grad = gr
        opt.step()
        sched.step()
        if it % 100 == 0 or it == 499:
            with torch.no_grad():
                rmse = nn.functional.mse_loss(model(xt), yt).sqrt().item()
            print(f"iter {it}: loss {torch.stack(losses).mean().item():.6f}  test rmse {rmse:.5f}")
    return rmse


if __name__ == "__main__":
    print("final rmse", round(train(), 5))
