"""An FP8 model is made with small random weights and then gets a checkpoint: the scale still
belongs to the random weights and cuts the loaded ones. Taken anew from the loaded weights, it
fits.
"""

import torch

Numbers = dict[str, float | bool]


def run(recompute: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    initial = 0.02 * torch.randn(64, 64, generator=generator)
    pretrained = 0.2 * torch.randn(64, 64, generator=generator)
    target = pretrained + 0.02 * torch.randn(64, 64, generator=generator)
    scale = (pretrained if recompute else initial).abs().max() / 448
    cut = ((pretrained / scale).abs() > 448).float().mean().item()
    weight = pretrained.clone().requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=0.05)
    losses = []
    for _ in range(30):
        x = torch.randn(128, 64, generator=generator)
        limited = (weight / scale).clamp(-448, 448)
        rounded = limited + (limited.to(torch.float8_e4m3fn).float() - limited).detach()
        loss = (x @ (rounded * scale).T - x @ target.T).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    start = (x @ pretrained.T - x @ target.T).square().mean().item()
    return {
        "weights_cut_percent": 100 * cut,
        "loss_without_fp8": start,
        "loss_first": losses[0],
        "loss_last": losses[-1],
        "failed": losses[-1] > 10 * start,
    }


def broken() -> Numbers:
    return run(recompute=False)


def fixed() -> Numbers:
    return run(recompute=True)
