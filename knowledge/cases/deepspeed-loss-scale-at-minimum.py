"""A dynamic loss scaler with a floor, as DeepSpeed has: an activation that FP16 cannot hold makes
every gradient NaN, 16 overflows bring the scale from 65536 to 1, and the next one ends the run.
"""

import torch
import torch.nn.functional as F

Numbers = dict[str, float | bool]


class FlooredScaler:
    """Halves on overflow; raises when it is at its floor already."""

    def __init__(self) -> None:
        self.scale, self.floor = 65536.0, 1.0

    def overflowed(self) -> None:
        if self.scale == self.floor:
            raise OverflowError(
                "Current loss scale already at minimum - cannot decrease scale anymore."
            )
        self.scale = max(self.scale / 2, self.floor)


def run(dtype: torch.dtype) -> Numbers:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    head = torch.nn.Linear(16, 8)
    start = head.weight.detach().clone()
    scaler = FlooredScaler()
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    overflows = ended_at = 0
    for step in range(1, 31):
        x = torch.randn(4, 16, generator=generator)
        y = torch.randint(0, 8, (4,), generator=generator)
        x[:, 3] = 80000.0  # a massive activation of a model that was trained in BF16
        x = x.to(dtype).float()
        optimizer.zero_grad()
        loss = F.cross_entropy(head(F.layer_norm(x, (16,))), y)
        (loss * scaler.scale).backward()
        assert head.weight.grad is not None
        if not bool(torch.isfinite(head.weight.grad).all()):
            overflows += 1
            try:
                scaler.overflowed()
            except OverflowError:
                ended_at = step
                break
            continue
        for parameter in head.parameters():
            assert parameter.grad is not None
            parameter.grad /= scaler.scale
        optimizer.step()
    return {
        "first_scale": 65536.0,
        "last_scale": scaler.scale,
        "overflows": overflows,
        "ended_at": ended_at,
        "changed_weights": int((head.weight != start).sum()),
        "failed": ended_at > 0,
    }


def broken() -> Numbers:
    return run(torch.float16)


def fixed() -> Numbers:
    return run(torch.bfloat16)
