"""What the record says of what a shadow step has compared."""

from __future__ import annotations

import json
import os
import pathlib
import sqlite3
import subprocess

import pytest
import torch
from finds import Finds, inputs
from forked_python import forked_python
from torch import nn


def _covered(found: Finds) -> dict:
    return json.loads(found.steps[-1]["detail"])["covered"]


def _loss(model: nn.Module):
    return lambda _step: model(inputs()).square().mean()


def test_a_usual_step_is_covered_whole(train):
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    covered = _covered(train(model, _loss(model), 3, optimizer=optimizer))
    assert covered["loss"] == 1 and covered["passes"] == [1, 1]
    assert covered["gradients"] == [4, 4] and covered["updates"] == [4, 4]
    assert covered["states"] >= 8 and covered["not"] == []


def test_what_an_optimizer_changes_out_of_sight_is_not_covered(train):
    model = nn.Linear(8, 8)

    class Hidden(torch.optim.Optimizer):
        def step(self) -> None:
            for each in (p for group in self.param_groups for p in group["params"]):
                held = each.detach().numpy()
                held -= 1e-3 * each.grad.numpy()

    covered = _covered(train(model, _loss(model), 3, optimizer=Hidden(model.parameters(), {})))
    assert covered["gradients"] == [2, 2] and covered["updates"] == [0, 2]
    assert covered["not"] == ["weight", "bias"]


def test_layers_that_were_not_asked_for_are_not_covered(train):
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    found = train(model, _loss(model), 3, optimizer=optimizer, shadow="every=1 layers=2")
    covered = _covered(found)
    assert covered["loss"] == 0 and covered["passes"] == [0, 1]
    assert covered["updates"] == [0, 4] and covered["gradients"] == [2, 4]


def _minus(model: nn.Module):
    """Two scores are subtracted, as of a critic."""
    return lambda _step: (model(inputs()) - model(inputs() + 1)).tanh().mean()


class Keys(nn.Module):
    """Attention whose queries, keys and values have one bias."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        nn.init.normal_(self.attention.in_proj_bias, std=0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.unflatten(0, (2, 8))
        return self.attention(x, x, x)[0]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
def test_gradients_that_cancel_out_are_told(train, kind):
    def cancelled(model: nn.Module, loss_of) -> dict[str, float]:
        def loss(step: int) -> torch.Tensor:
            with torch.autocast("cpu", dtype=kind, enabled=kind is not torch.float32):
                return loss_of(step).float()

        return dict(_covered(train(model, loss, 3))["cancelled"])

    critic = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    assert cancelled(critic, _minus(critic)) == {"2.bias": 1.0}
    normed = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 1))
    assert cancelled(normed, _loss(normed)) == {"0.bias": 1.0}
    keys = Keys()
    told = cancelled(keys, _loss(keys))
    assert told == {"attention.in_proj_bias": pytest.approx(1 / 3, abs=0.09)}


def test_gradients_that_fp16_loses_do_not_cancel_out(train):
    """All of them are 0, in FP64 none is."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))

    def loss_of(_step: int) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            return model(inputs()).float().square().mean() * 1e-8

    found = train(model, loss_of, 3)
    assert _covered(found)["cancelled"] == []
    assert all(not bool(each.grad.any()) for each in model.parameters())


def test_a_factor_of_0_does_not_cancel_out(train):
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)
            self.offset = nn.Parameter(torch.ones(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) + self.offset * torch.zeros(8)

    model = Gated()
    assert _covered(train(model, _loss(model), 3))["cancelled"] == []


def test_a_sum_of_nothing_does_not_cancel_out(train):
    """An expert that is not chosen gets rows, and there are none."""
    model = nn.Sequential(nn.Linear(8, 1), nn.Linear(8, 1))

    def loss_of(_step: int) -> torch.Tensor:
        return model[0](inputs()).square().mean() + model[1](inputs(0)).sum()

    assert _covered(train(model, loss_of, 3))["cancelled"] == []


SHARDED = """
import os, sys, torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from mpnanny import MixedPrecisionNanny
torch.set_num_threads(1)
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)).to(torch.bfloat16)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.0,
                              foreach=sys.argv[3] == "foreach")
with MixedPrecisionNanny(model, optimizer, db=sys.argv[1], shadow="every=1", quiet=True):
    for step in range(6):
        loss = model(torch.randn(16, 8).bfloat16()).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
distributed.destroy_process_group()
"""


@pytest.mark.parametrize("how", ["foreach", "each"])
def test_sharded_parameters_are_followed_on_the_part_of_the_rank(tmp_path: pathlib.Path, how: str):
    pytest.importorskip("torch.distributed.fsdp", reason="no FSDP2")
    path = tmp_path / "run.db"
    words = [*forked_python(), "-c", SHARDED, str(path), str(tmp_path / "store"), how]
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "1"}
    subprocess.run(words, check=True, timeout=300, env=environment)
    with sqlite3.connect(path) as db:
        kinds = {kind for (kind,) in db.execute("SELECT kind FROM shadow_finding")}
        details = [json.loads(text) for (text,) in db.execute("SELECT detail FROM shadow_step")]
    assert "lost_change" in kinds
    assert details[-1]["covered"]["updates"] == [4, 4]
