"""LoRA matrices made in the float16 of their base model: Adam's eps of 1e-8 is 0 there, lora_A has
a gradient of 0 in the first step (lora_B starts at 0), and 0 / 0 makes it NaN. Cast to FP32 it
trains.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    base = (torch.randn(16, 32, generator=generator) / 6).half()
    lora_a = torch.nn.Parameter((torch.randn(4, 32, generator=generator) / 6).to(dtype))
    lora_b = torch.nn.Parameter(torch.zeros(16, 4, dtype=dtype))
    optimizer = torch.optim.AdamW([lora_a, lora_b], lr=2e-4, foreach=False)
    first_nan = 0
    first = last = float("nan")
    for step in range(1, 11):
        x = torch.randn(64, 32, generator=generator).half()
        y = x.float() @ base.float().T + 1
        out = x @ base.T + (x.to(dtype) @ lora_a.T @ lora_b.T).half()
        optimizer.zero_grad()
        loss = (out.float() - y).square().mean()
        if not bool(torch.isfinite(loss)):
            first_nan = step
            break
        last = loss.item()
        first = last if step == 1 else first
        loss.backward()
        optimizer.step()
    return {
        "eps_in_this_dtype": torch.tensor(1e-8, dtype=dtype).item(),
        "first_loss": first,
        "last_finite_loss": last,
        "nan_in_lora_a": int(torch.isnan(lora_a).sum()),
        "elements_of_lora_a": lora_a.numel(),
        "loss_nan_at": first_nan,
        "failed": first_nan > 0,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.float32)
