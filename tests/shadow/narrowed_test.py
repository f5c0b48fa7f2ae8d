"""Optimizers that go on with a state that a checkpoint held in 16 bits, and checkpoints that are
right.
"""

from __future__ import annotations

import copy
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database
from finds import Finds, inputs, text_of
from mpnanny import MixedPrecisionNanny
from torch import nn

STEPS = 12


def build(dtype: torch.dtype = torch.float32) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4)).to(dtype)
    return model, torch.optim.Adam(model.parameters(), lr=1e-3)


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(STEPS):
        optimizer.zero_grad()
        batch = inputs().to(next(model.parameters()).dtype)
        (1e-2 * model(batch).float().square().mean()).backward()
        optimizer.step()


def compact(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: compact(each) for key, each in tree.items()}
    if isinstance(tree, torch.Tensor) and tree.dim() and tree.is_floating_point():
        return tree.half()
    return tree


@pytest.fixture
def resume(
    db: str, database: Callable[[], Database], tmp_path: pathlib.Path
) -> Callable[..., list[dict[str, Any]]]:
    """Trains, saves what `pack` makes of the states, and goes on with another model."""

    def run(
        pack: Callable[[dict[str, Any]], dict[str, Any]],
        by_file: bool = True,
        dtype: torch.dtype = torch.float32,
        to: torch.dtype | None = None,
    ) -> list[dict[str, Any]]:
        torch.manual_seed(0)
        model, optimizer = build(dtype)
        train(model, optimizer)
        saved = pack({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
        saved = copy.deepcopy(saved)
        second, other = build(dtype if to is None else to)
        with MixedPrecisionNanny(second, db=db, shadow="off", quiet=True):
            if by_file:
                torch.save(saved, tmp_path / "state.pt")
                saved = torch.load(tmp_path / "state.pt")
            second.load_state_dict(saved["model"])
            other.load_state_dict(saved["optimizer"])  # loads
            train(second, other)
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        found = [each for each in Finds(database()).all if each["kind"] == "state_narrowed"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    return run


@pytest.mark.parametrize("by_file", [True, False])
def test_second_moments_that_became_zero_are_an_error(resume, by_file):
    (worst,) = resume(compact, by_file)
    assert (worst["severity"], worst["precision"]) == ("ERROR", "proven")
    assert worst["detail"]["what"] == "exp_avg_sq" and worst["dtype"] == "float16"
    assert worst["line"].endswith("# loads")  # what has cast them is not within its reach
    assert worst["detail"]["share"] > 0.5 and worst["detail"]["count"] == 4


def test_states_that_were_cast_and_cast_back_are_seen_by_their_values(resume):
    def through(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {key: through(each) for key, each in tree.items()}
        narrow = isinstance(tree, torch.Tensor) and tree.dim() > 0
        return tree.to(torch.float16).float() if narrow else tree

    (found,) = resume(through)
    assert found["detail"]["what"] == "exp_avg_sq" and found["severity"] == "ERROR"


def test_the_line_of_the_cast_is_named_where_the_program_has_one(db, database):
    torch.manual_seed(0)
    model, optimizer = build()
    train(model, optimizer)
    saved = compact({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    model, optimizer = build()
    with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])  # loads
        train(model, optimizer)
    found = Finds(database()).first()
    assert (found["kind"], found["line"]) == ("state_narrowed", "return tree.half()")
    assert text_of(json.loads(found["detail"])["at"]).endswith("# loads")


def test_states_in_bf16_lose_nothing_but_bits(resume):
    def brain(saved: dict[str, Any]) -> dict[str, Any]:
        states = saved["optimizer"]["state"]
        states = {
            key: {n: e.bfloat16() if e.dim() else e for n, e in state.items()}
            for key, state in states.items()
        }
        return {**saved, "optimizer": {**saved["optimizer"], "state": states}}

    (found,) = resume(brain)
    assert (found["severity"], found["dtype"]) == ("INFO", "bfloat16")
    assert found["detail"]["what"] in ("exp_avg", "exp_avg_sq") and found["detail"]["share"] == 0


# --- what is right ---


@pytest.mark.parametrize("by_file", [True, False])
def test_states_as_they_are(resume, by_file):
    assert resume(lambda saved: saved, by_file) == []


def test_weights_in_16_bits_beside_states_in_32(resume):
    assert resume(lambda saved: {**saved, "model": compact(saved["model"])}) == []


def test_a_training_in_16_bits(resume):
    assert resume(lambda saved: saved, dtype=torch.bfloat16) == []


def test_an_export_that_nobody_loads(db, database, tmp_path):
    torch.manual_seed(0)
    model, optimizer = build()
    with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
        train(model, optimizer)
        torch.save(compact(model.state_dict()), tmp_path / "half.pt")
        torch.save(compact(optimizer.state_dict()), tmp_path / "optimizer.pt")
        served = build(torch.float16)[0]
        served.load_state_dict(torch.load(tmp_path / "half.pt"))
        train(model, optimizer)
    assert Finds(database()).all == []


def test_a_state_that_has_not_moved_yet(db, database):
    model, optimizer = build()
    other = build()[1]
    for each in other.param_groups[0]["params"]:
        each.grad = torch.zeros_like(each)
    other.step()
    with MixedPrecisionNanny(model, db=db, shadow="off", quiet=True):
        optimizer.load_state_dict(other.state_dict())
        train(model, optimizer)
    assert Finds(database()).all == []


# --- states that the load itself casts ---


class WideAdam(torch.optim.Optimizer):
    """Keeps its moments in FP32 whatever the weights are."""

    def __init__(self, parameters: Any, lr: float = 1e-3, wide: bool = True) -> None:
        super().__init__(parameters, {"lr": lr})
        self.wide = wide

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for each in self.param_groups[0]["params"]:
            state = self.state[each]
            if not state:
                dtype = torch.float32 if self.wide else each.dtype
                state["second"] = torch.zeros_like(each, dtype=dtype)
            state["second"].mul_(0.999).add_(each.grad.to(state["second"].dtype) ** 2, alpha=1e-3)
            each.sub_((1e-4 * each.grad / (state["second"].sqrt() + 1e-6)).to(each.dtype))


def resumed_wide(db: str, database: Any, model: nn.Module, again: bool) -> list[dict[str, Any]]:
    optimizer = WideAdam(model.parameters())
    train(model, optimizer)
    saved = copy.deepcopy(optimizer.state_dict())
    second = copy.deepcopy(model).bfloat16()
    other = WideAdam(second.parameters())
    with MixedPrecisionNanny(second, db=db, shadow="off", quiet=True):
        other.load_state_dict(saved)  # loads
        if again:
            for state in other.state.values():
                state["second"] = state["second"].float()
        train(second, other)
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
    return [each for each in Finds(database()).all if each["kind"] == "state_narrowed"]


def test_a_load_that_casts_states_of_16_bit_weights(db, database):
    torch.manual_seed(0)
    first = build(torch.bfloat16)[0]
    with MixedPrecisionNanny(first, db=db, shadow="off", quiet=True):
        train(first, WideAdam(first.parameters()))  # shows how the optimizer makes them
    (found,) = resumed_wide(db, database, first, again=False)
    assert (found["severity"], found["dtype"]) == ("WARNING", "bfloat16")
    assert found["line"].endswith("# loads")
    detail = json.loads(found["detail"])
    assert (detail["what"], detail["given"], detail["count"]) == ("second", "float32", 4)


def test_a_training_in_fp32_that_goes_on_in_bf16_is_a_note(db, database, monkeypatch):
    monkeypatch.setattr("mpnanny.relations.narrowed._made", {})
    torch.manual_seed(0)
    (found,) = resumed_wide(db, database, build()[0], again=False)
    assert found["severity"] == "INFO"


def test_states_that_are_put_back_in_fp32(db, database):
    torch.manual_seed(0)
    found = resumed_wide(db, database, build(torch.bfloat16)[0], again=True)
    assert all(each["severity"] == "INFO" for each in found)
