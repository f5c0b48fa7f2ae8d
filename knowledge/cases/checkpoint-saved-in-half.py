"""An Adam training, saved and resumed at step 100 with weights and optimizer state in FP16. The
second moments are zeros in the file: the next step is many times lr, and for a feature that is
absent in the next batch it is lr * m / eps.
"""

import copy

import torch

Numbers = dict[str, float | bool]

LR = 1e-2


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(512, 16, generator=generator)
    y = x @ torch.randn(16, 1, generator=generator) + 0.1 * torch.randn(512, 1, generator=generator)
    weight = torch.nn.Parameter(torch.zeros(16, 1))
    optimizer = torch.optim.Adam([weight], lr=LR)

    def train(step: int) -> float:
        batch = torch.randint(0, 512, (64,), generator=generator)
        features = x[batch].clone()
        if step % 4:
            features[:, 15] = 0  # a rare feature: in every fourth batch only
        loss = 3e-5 * (features @ weight - y[batch]).square().mean()  # a small loss weight
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    for step in range(101):
        before = train(step)
    saved = copy.deepcopy(optimizer.state_dict())
    for state in saved["state"].values():
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = state[name].to(dtype)
    kept = weight.detach().clone().to(dtype).float()
    rounding = (kept - weight).abs().max().item()
    zeros = 100 * (saved["state"][0]["exp_avg_sq"] == 0).float().mean().item()
    weight.data.copy_(kept)
    optimizer.load_state_dict(saved)
    train(101)
    change = (weight.detach() - kept).abs().flatten()
    train(102)
    after = train(104)
    return {
        "largest_rounding_of_a_weight": rounding,
        "second_moments_zero_percent": zeros,
        "largest_change_over_lr": change[:15].max().item() / LR,
        "change_of_the_rare_one_over_lr": change[15].item() / LR,
        "loss_before": before,
        "loss_after": after,
        "failed": after > 10 * before,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
