"""Train, save with the optimizer kept on the host, resume."""

import os

import torch
from torch import nn

torch.manual_seed(0)
CKPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ckpt.pt")
HOST_BYTES = torch.full((1 << 16,), 0x7FC0, dtype=torch.int32) << 16  # stale host memory


def make():
    torch.manual_seed(3)
    net = nn.Sequential(
        nn.Linear(20, 64),
        nn.LayerNorm(64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, 3),
    )
    return net, torch.optim.AdamW(net.parameters(), lr=2e-3)


def offload(state):
    """Copies of the moments in pinned host memory; the copy of the last tensors is still under way."""
    for key, s in state["state"].items():
        dst = HOST_BYTES.view(torch.float32)[: s["exp_avg"].numel()].clone().view_as(s["exp_avg"])
        if key < 99:
            dst.copy_(s["exp_avg"])
        s["exp_avg"] = dst
    return state


def batch(proj):
    x = torch.randn(64, 20)
    return x, (x @ proj).argmax(1)


def train(net, opt, steps, first, proj):
    for step in range(first, first + steps):
        x, y = batch(proj)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0 or step == first + 1:
            print(f"step {step} loss {loss.item():.4f}")


proj = torch.randn(20, 3)
if not os.path.exists(CKPT):
    net, opt = make()
    train(net, opt, 40, 0, proj)
    torch.save(
        {"model": net.state_dict(), "optimizer": offload(opt.state_dict()), "step": 40}, CKPT
    )
else:
    net, opt = make()
    ckpt = torch.load(CKPT)
    net.load_state_dict(ckpt["model"])
    opt.load_state_dict(ckpt["optimizer"])
    train(net, opt, 40, ckpt["step"], proj)
