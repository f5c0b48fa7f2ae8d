"""A loader that keeps the dtype of the checkpoint's file, as transformers 5 does, emulated: a
script with autocast that trained FP32 weights now trains BF16 weights, and most updates are lost.
"""

import copy

import torch

Numbers = dict[str, float | bool]


def load(checkpoint: dict[str, torch.Tensor], dtype: torch.dtype | None = None) -> torch.nn.Linear:
    dtype = dtype or checkpoint["weight"].dtype  # dtype="auto" is the default
    model = torch.nn.Linear(256, 256, bias=False, dtype=dtype)
    model.load_state_dict(checkpoint)
    return model


def run(dtype: torch.dtype | None) -> Numbers:
    generator = torch.Generator().manual_seed(0)
    checkpoint = {"weight": (0.02 * torch.randn(256, 256, generator=generator)).bfloat16()}
    x = torch.randn(64, 256, generator=generator)
    model = load(checkpoint, dtype)
    before = copy.deepcopy(model.weight.data)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.0)
    for _ in range(10):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
    moved = (model.weight.data != before).float().mean().item()
    return {
        "bits_of_weights": 8 * model.weight.element_size(),
        "bits_of_adam_state": 8 * optimizer.state[model.weight]["exp_avg"].element_size(),
        "moved_percent": 100 * moved,
        "failed": moved < 0.9,
    }


def broken() -> Numbers:
    return run(None)


def fixed() -> Numbers:
    return run(torch.float32)
