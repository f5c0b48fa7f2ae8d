"""Four seeds in FP32 and in BF16 autocast: between seeds the loss differs far more than between the
two precisions. Compared across seeds a "difference" appears, compared in pairs it does not.
"""

import statistics

import torch

Numbers = dict[str, float | bool]

SEEDS = range(4)


def final_loss(seed: int, bf16: bool) -> float:
    data = torch.Generator().manual_seed(0)
    x = torch.randn(512, 32, generator=data)
    y = (x @ torch.randn(32, 1, generator=data)).tanh()
    y += 0.1 * torch.randn(512, 1, generator=data)
    order = torch.Generator().manual_seed(100 + seed)
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
    with torch.no_grad():
        for weight in model.parameters():
            weight.uniform_(-0.17, 0.17, generator=order)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(60):
        batch = torch.randint(0, 512, (32,), generator=order)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            prediction = model(x[batch])
        loss = torch.nn.functional.mse_loss(prediction.float(), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return torch.nn.functional.mse_loss(model(x), y).item()


def run(paired: bool) -> Numbers:
    fp32 = [final_loss(seed, bf16=False) for seed in SEEDS]
    bf16 = [final_loss(seed, bf16=True) for seed in SEEDS]
    pairs = [b - a for a, b in zip(fp32, bf16, strict=True)]
    worst = max(bf16) - min(fp32)
    noise = statistics.stdev(fp32)
    shown = abs(statistics.mean(pairs)) if paired else worst
    return {
        "stdev_between_seeds": noise,
        "mean_paired_difference": statistics.mean(pairs),
        "largest_unpaired_difference": worst,
        "failed": shown > noise,
    }


def broken() -> Numbers:
    return run(paired=False)


def fixed() -> Numbers:
    return run(paired=True)
