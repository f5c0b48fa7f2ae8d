"""Bytes per parameter of weights, gradients and AdamW's moments; and what pure BF16 pays for its 8
bytes: a weight of 1 does not move at a learning rate of 1e-3.
"""

import torch

Numbers = dict[str, float | bool]


def run(dtype: torch.dtype) -> Numbers:
    layer = torch.nn.Linear(1000, 1000, bias=False, dtype=dtype)
    with torch.no_grad():
        layer.weight.fill_(1.0)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-3, weight_decay=0.0)
    layer(torch.ones(1, 1000, dtype=dtype)).sum().backward()
    optimizer.step()
    weight = layer.weight
    assert weight.grad is not None
    state = [s for s in optimizer.state[weight].values() if torch.is_tensor(s) and s.numel() > 1]
    size = sum(t.numel() * t.element_size() for t in (weight, weight.grad, *state))
    moved = (1.0 - weight.detach().float()).abs().max().item()
    return {
        "bytes_per_parameter": size / weight.numel(),
        "moved": moved,
        "failed": moved == 0.0,
    }


def broken() -> Numbers:
    return run(torch.bfloat16)


def fixed() -> Numbers:
    return run(torch.float32)
