"""What XLA_USE_BF16=1 makes of a training: weights, gradients and Adam's moments in BF16. The loss
gets stuck where updates fall under half an ulp; FP32 weights with BF16 products go on.
"""

import torch

Numbers = dict[str, float | bool]

STEPS = 300


def run(everything: bool) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(512, 32, generator=generator)
    y = torch.tanh(x @ torch.randn(32, 1, generator=generator))
    dtype = torch.bfloat16 if everything else torch.float32
    first = torch.nn.Parameter((0.2 * torch.randn(32, 32, generator=generator)).to(dtype))
    second = torch.nn.Parameter((0.2 * torch.randn(32, 1, generator=generator)).to(dtype))
    optimizer = torch.optim.Adam([first, second], lr=2e-4)
    start = first.detach().clone()
    for step in range(STEPS):
        hidden = torch.tanh(x.bfloat16() @ first.bfloat16())
        loss = ((hidden @ second.bfloat16()).float() - y).square().mean()
        if step == 0:
            at_the_start = loss.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {
        "loss_at_the_start": at_the_start,
        "loss_after_300_steps": loss.item(),
        "weights_that_never_moved_percent": 100 * (first == start).float().mean().item(),
        "bits_of_adams_state": 8 * optimizer.state[first]["exp_avg_sq"].element_size(),
        "failed": loss.item() > 0.5 * at_the_start,
    }


def broken() -> Numbers:
    return run(everything=True)


def fixed() -> Numbers:
    return run(everything=False)
