"""Averages and counters in 16 bits that stand still, and those that are right."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from typing import Any

import mpnanny
import pytest
import torch
from conftest import Database
from finds import Finds, inputs, text_of
from mpnanny import MixedPrecisionNanny
from mpnanny.relations.living import walk
from torch import nn

STEPS = 80


@pytest.fixture
def run(
    db: str, database: Callable[[], Database], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[dict[str, Any]]]:
    monkeypatch.setattr("mpnanny.relations.averages.PAUSE", 0.0)
    monkeypatch.setattr("mpnanny.relations.averages.SHARE", 0.0)

    def train(
        make: Callable[[nn.Module], Callable[[int], None]],
        steps: int = STEPS,
        shadow: str = "off",
    ) -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8))
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
        target = nn.Linear(8, 8)
        after = make(model)
        with MixedPrecisionNanny(model, db=db, shadow=shadow, quiet=True):
            for step in range(steps):
                optimizer.zero_grad()
                batch = inputs(64)
                (model(batch) - target(batch).detach()).square().mean().backward()
                optimizer.step()
                after(step)
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        found = [each for each in Finds(database()).all if each["kind"] == "stands_still"]
        for each in found:
            each["detail"] = json.loads(each["detail"])
        return found

    return train


def average(dtype: torch.dtype, decay: float) -> Callable[[nn.Module], Callable[[int], None]]:
    def make(model: nn.Module) -> Callable[[int], None]:
        follower = copy.deepcopy(model).to(dtype)

        @torch.no_grad()
        def update(_step: int) -> None:
            for kept, each in zip(follower.parameters(), model.parameters(), strict=True):
                kept.mul_(decay).add_(each.to(dtype), alpha=1 - decay)  # averages

        return update

    return make


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_average_whose_updates_are_too_small(run, dtype):
    (found,) = run(average(dtype, 0.9999 if dtype is torch.float16 else 0.999))
    assert (found["severity"], found["precision"]) == ("WARNING", "proven")
    assert found["dtype"] == str(dtype)[6:]
    assert found["line"].endswith("# averages")
    assert found["detail"]["what"] == "An average of the weights"


def test_what_a_slow_look_through_the_process_found_is_looked_at_again(run, monkeypatch):
    monkeypatch.setattr("mpnanny.relations.averages.SHARE", 20.0)
    walks = []

    def slow(model: nn.Module) -> Any:
        walks.append(model)
        time.sleep(0.5)  # the next one is due in ten seconds
        return walk(model)

    monkeypatch.setattr("mpnanny.relations.averages.walk", slow)
    (found,) = run(average(torch.bfloat16, 0.999))
    assert found["line"].endswith("# averages")
    assert len(walks) == 1


def test_the_line_that_gave_an_average_its_format_is_named(run):
    def copies(model: nn.Module) -> list[torch.Tensor]:
        return [each.detach().to(torch.bfloat16, copy=True) for each in model.parameters()]

    def make(model: nn.Module) -> Callable[[int], None]:
        mpnanny.follow_from_here()
        kept = copies(model)  # made

        def update(_step: int) -> None:
            for each, weight in zip(kept, model.parameters(), strict=True):
                each.sub_(0.001 * (each - weight.detach()))

        return update

    (found,) = run(make, shadow="steps=900-901")
    assert text_of(found["detail"]["home"]).startswith("return [each.detach().to(torch.bfloat16")
    assert text_of(found["detail"]["called_from"][-1]).endswith("# made")


def test_averages_in_fp32_that_follow_do_not_hide_one_in_16_bits(run):
    def make(model: nn.Module) -> Callable[[int], None]:
        follow = [average(torch.float32, 0.5)(model) for _ in range(3)]
        stands = average(torch.bfloat16, 0.999)(model)

        def update(step: int) -> None:
            for each in (*follow, stands):
                each(step)

        return update

    (found,) = run(make)
    assert found["dtype"] == "bfloat16"


def test_an_average_that_is_made_anew_each_step(run):
    def make(model: nn.Module) -> Callable[[int], None]:
        kept = {name: each.detach().bfloat16() for name, each in model.named_parameters()}

        def update(_step: int) -> None:
            for name, each in model.named_parameters():
                kept[name] = 0.999 * kept[name] + 0.001 * each.detach().bfloat16()  # averages

        return update

    (found,) = run(make)
    assert found["line"].endswith("# averages")


def test_a_counter_that_has_stopped(run):
    def make(_model: nn.Module) -> Callable[[int], None]:
        seen = torch.zeros((), dtype=torch.bfloat16)

        def update(_step: int) -> None:
            for _ in range(16):
                seen.add_(1)  # counts

        return update

    (found,) = run(make)
    assert found["line"].endswith("# counts") and found["detail"]["what"] == "A counter"


# --- what is right ---


def test_an_average_in_fp32(run):
    assert run(average(torch.float32, 0.999)) == []


def test_an_average_in_bf16_that_follows(run):
    assert run(average(torch.bfloat16, 0.8)) == []


def test_a_copy_in_bf16_of_an_average_in_fp32(run):
    def make(model: nn.Module) -> Callable[[int], None]:
        kept = copy.deepcopy(model)
        shown = copy.deepcopy(model).bfloat16()

        @torch.no_grad()
        def update(_step: int) -> None:
            for one, other, each in zip(
                kept.parameters(), shown.parameters(), model.parameters(), strict=True
            ):
                one.lerp_(each, 1e-4)
                other.copy_(one)

        return update

    assert run(make) == []


def test_a_frozen_teacher_in_bf16(run):
    def make(model: nn.Module) -> Callable[[int], None]:
        teacher = copy.deepcopy(model).bfloat16()

        def update(_step: int) -> None:
            teacher(inputs().bfloat16())

        return update

    assert run(make) == []


def test_a_target_that_is_copied_now_and_then(run):
    def make(model: nn.Module) -> Callable[[int], None]:
        target = copy.deepcopy(model).bfloat16()

        def update(step: int) -> None:
            if step % 10 == 9:
                target.load_state_dict(model.state_dict())

        return update

    assert run(make) == []


def test_a_counter_that_counts(run):
    def make(_model: nn.Module) -> Callable[[int], None]:
        seen = torch.zeros((), dtype=torch.float16)

        def update(_step: int) -> None:
            seen.add_(1)

        return update

    assert run(make) == []


# --- in FP32 ---


def in_fp32(decay: Callable[[], Any], source: nn.Module | None = None):
    def make(model: nn.Module) -> Callable[[int], None]:
        follower = copy.deepcopy(model)
        followed = model if source is None else copy.deepcopy(model)

        @torch.no_grad()
        def update(_step: int) -> None:
            for kept, each in zip(follower.parameters(), followed.parameters(), strict=True):
                kept.mul_(decay()).add_(each * (1 - decay()))  # averages

        return update

    return make


def test_a_decay_that_was_rounded_to_one(run):
    decay = torch.tensor(0.9999).half()
    (found,) = run(in_fp32(lambda: decay), 200)
    assert (found["severity"], found["precision"]) == ("WARNING", "not_tested")
    assert found["line"].endswith("# averages") and found["dtype"] == "float32"


def test_an_average_of_another_network_than_the_one_that_is_trained(run):
    (found,) = run(in_fp32(lambda: 0.9, nn.Linear(1, 1)), 200)
    assert (found["severity"], found["precision"]) == ("WARNING", "excluded")
    assert found["line"].endswith("# averages")


def test_a_slow_average_in_fp32(run):
    assert run(in_fp32(lambda: 0.99999), 200) == []


def test_a_copy_in_fp32_that_is_made_anew_now_and_then(run):
    def make(model: nn.Module) -> Callable[[int], None]:
        target = copy.deepcopy(model)

        def update(step: int) -> None:
            if step % 10 == 9:
                target.load_state_dict(model.state_dict())

        return update

    assert run(make, 200) == []


def test_the_weights_of_the_beginning_in_fp32(run):
    """They are read in every step, as by a penalty on the distance to them."""

    def make(model: nn.Module) -> Callable[[int], None]:
        begun = copy.deepcopy(model)

        def update(_step: int) -> None:
            sum(each.norm() for each in begun.parameters())

        return update

    assert run(make, 200) == []
