"""The trace of operators changes no bit of losses, weights or the optimizer's state."""

from __future__ import annotations

import pytest
import torch
from conftest import Mlp, batch, cross_entropy
from mpnanny import MixedPrecisionNanny
from torch import nn
from torch.utils.checkpoint import checkpoint


def modes() -> int:
    return torch._C._len_torch_dispatch_stack()


class Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten()
        )
        self.leave = nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leave(self.body(x.view(-1, 1, 2, 4)))


def _recurrent() -> nn.Module:
    """An LSTM, or a GRU on processors for which oneDNN has no LSTM in BF16."""
    lstm = nn.LSTM(4, 8, batch_first=True)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            lstm(torch.zeros(1, 2, 4))
    except RuntimeError:
        return nn.GRU(4, 8, batch_first=True)
    return lstm


class Sequence(nn.Module):
    """A recurrent layer, then attention whose re-computation is checkpointed."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = _recurrent()
        self.norm = nn.LayerNorm(8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.leave = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.enter(x.view(-1, 2, 4))
        hidden = checkpoint(self.block, self.norm(hidden), use_reentrant=False)
        return self.leave(hidden.mean(1))


def train(kind, mode: str, optimizer_kind, steps: int = 12, blocks: bool = True, **options):
    """From step 2 on the logged loss is NaN once, so that the steps after it are dense."""
    torch.manual_seed(3)
    model = kind()
    optimizer = optimizer_kind(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", enabled=mode == "fp16")
    dtype = torch.bfloat16 if mode == "bf16" else torch.float16
    nanny = MixedPrecisionNanny(model, optimizer, quiet=True, **options) if options else None
    losses, traced = [], []
    for step in range(steps):
        x, y = batch()
        block = nanny.step(step) if nanny and blocks else None
        record = block.__enter__() if block else None
        with torch.autocast("cpu", dtype=dtype, enabled=mode != "fp32"):
            loss = cross_entropy(model(x), y)
        traced.append(modes())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if record:
            record.log(loss=float("nan") if step == 2 else loss)
            block.__exit__(None, None, None)
        elif nanny and step == 2:
            nanny._session.tracing.trace_next()
        losses.append(loss.item())
        assert modes() == 0
    if nanny:
        nanny.close()
        assert traced[3:6] == [1, 1, 1] and sum(traced) == steps - 3
    return losses, model.state_dict(), optimizer.state_dict()


OPTIMIZERS = {
    "fused": lambda p, lr: torch.optim.AdamW(p, lr=lr, fused=True),
    "foreach": lambda p, lr: torch.optim.Adam(p, lr=lr, foreach=True),
    "plain": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9, foreach=False),
}


@pytest.mark.parametrize(
    ("kind", "mode", "optimizer", "blocks"),
    [
        (Mlp, "fp32", "fused", True),
        (Mlp, "fp16", "foreach", False),
        (Mlp, "bf16", "plain", True),
        (Conv, "fp32", "plain", False),
        (Conv, "fp16", "foreach", True),
        (Sequence, "bf16", "fused", False),
        (Sequence, "fp32", "foreach", True),
    ],
)
def test_a_traced_training_has_the_same_bits(kind, mode, optimizer, blocks, db, database):
    plain = train(kind, mode, OPTIMIZERS[optimizer])
    traced = train(kind, mode, OPTIMIZERS[optimizer], blocks=blocks, db=db)
    assert [x.hex() for x in traced[0]] == [x.hex() for x in plain[0]]
    for name, tensor in plain[1].items():
        assert torch.equal(traced[1][name], tensor), name
    for mine, theirs in zip(traced[2]["state"].values(), plain[2]["state"].values(), strict=True):
        for key, value in theirs.items():
            assert value is mine[key] or torch.equal(mine[key], value), key
    (event,) = database().rows("SELECT detail FROM event WHERE type = 'operators_traced'")
    assert '"steps": 9' in event["detail"] and '"steps_with_an_origin": 0' in event["detail"]
    assert database().rows("SELECT * FROM layer WHERE type = 'operator'") == []
    assert not database().rows("SELECT * FROM event WHERE type = 'hook_failed'")


@pytest.mark.parametrize(("kind", "mode"), [(Conv, "fp16"), (Sequence, "bf16")])
def test_so_has_one_on_a_device(kind, mode, lag, db, database):
    plain = train(kind, mode, OPTIMIZERS["foreach"])
    traced = train(kind, mode, OPTIMIZERS["foreach"], blocks=False, db=db)
    assert [x.hex() for x in traced[0]] == [x.hex() for x in plain[0]]
    assert all(torch.equal(traced[1][name], tensor) for name, tensor in plain[1].items())
    (event,) = database().rows("SELECT detail FROM event WHERE type = 'operators_traced'")
    assert '"steps": 9' in event["detail"] and '"steps_with_an_origin": 0' in event["detail"]
    assert not database().rows("SELECT * FROM event WHERE type = 'hook_failed'")
