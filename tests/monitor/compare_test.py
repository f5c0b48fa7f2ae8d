"""`mpnanny compare` on real trainings in several precisions, recorded by the monitor."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

import mpnanny
import pytest
import torch
from conftest import PACKAGE
from torch import nn

PROGRAM = PACKAGE.parent / "bin/mpnanny"
STEPS = 160


def train(path: pathlib.Path, precision: str, seed: int = 1) -> None:
    """A small classifier, all of whose runs with one seed see the same weights and data."""
    torch.manual_seed(seed)
    data = torch.Generator().manual_seed(seed)
    plane = torch.randn(16, 5, generator=torch.Generator().manual_seed(99))
    model = nn.Sequential(
        nn.Linear(16, 64),
        nn.LayerNorm(64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, 5),
    )
    pure = torch.bfloat16 if precision == "pure" else torch.float32
    model = model.to(pure)
    # An update is below half an ulp of the norm's weights, which are 1, and of all but small ones.
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    nanny = mpnanny.MixedPrecisionNanny(
        model, optimizer=optimizer, trace_interval=10, db=path, quiet=True, name=precision
    )
    for step in range(STEPS):
        with nanny.step(step) as s:
            x = torch.randn(64, 16, generator=data)
            y = (x @ plane).argmax(1)
            if precision == "broken" and step == 100:
                with torch.no_grad():
                    model[3].weight.mul_(40)
            with torch.autocast("cpu", low, enabled=low is not None):
                loss = nn.functional.cross_entropy(model(x.to(pure)).float(), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            s.log(loss=loss)
    nanny.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """All trainings, once."""
    folder = tmp_path_factory.mktemp("runs")
    for precision in ("fp32", "bf16", "fp16", "pure", "broken"):
        train(folder / f"{precision}.db", precision)
    train(folder / "again.db", "fp32")
    train(folder / "seed.db", "fp32", seed=2)
    return folder


def compare(runs: pathlib.Path, b: str, a: str = "fp32") -> dict[str, Any]:
    """The whole answer."""
    command = [str(PROGRAM), "compare", f"{runs}/{a}.db", f"{runs}/{b}.db", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_same_training_again_is_the_same(runs: pathlib.Path) -> None:
    answer = compare(runs, "again")
    assert answer["verdict"] == "acceptable", answer["reasons"]
    assert answer["first_difference"] is None
    assert answer["final"]["worse_by"] == 0


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_autocast_differs_by_rounding_only(runs: pathlib.Path, precision: str) -> None:
    answer = compare(runs, precision)
    assert answer["noise"]["format"] == precision
    assert answer["parted_tensors"] == 0, answer["layers"]
    assert answer["first_difference"] is None
    assert answer["verdict"] != "not_acceptable", answer["reasons"]
    assert abs(answer["final"]["worse_by"]) < 0.05
    assert {"key": "precision", "a": "fp32", "b": precision} in answer["config"]


def test_pure_bf16_parts_at_its_updates(runs: pathlib.Path) -> None:
    answer = compare(runs, "pure")
    first = answer["first_difference"]
    assert first is not None
    assert first["metric"] in ("update frozen share", "update zero share"), first
    assert first["b"] > 0.5 > first["a"]
    frozen = [row for row in answer["metrics"] if row["metric"] == "update frozen share"]
    assert frozen[0]["parted"] >= 3


def test_a_layer_that_breaks_is_found_where_it_breaks(runs: pathlib.Path) -> None:
    answer = compare(runs, "broken")
    first = answer["first_difference"]
    assert first["step"] == 100, first
    assert first["layer"] in ("3", "3.weight"), first
    assert first["together_at"] == 90
    assert answer["verdict"] == "not_acceptable", answer["reasons"]


def test_two_seeds_are_told_as_such(runs: pathlib.Path) -> None:
    answer = compare(runs, "seed")
    assert any("start from other weights" in limit for limit in answer["limits"])
    assert answer["parted_tensors"] <= 0.1 * answer["compared_tensors"], answer["layers"]
