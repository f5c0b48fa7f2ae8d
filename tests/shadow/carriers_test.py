"""What carries a value that is not finite into a step: whose memory it is."""

from __future__ import annotations

import copy
import json

import torch
from finds import Finds, inputs
from torch import nn


def _first(found: Finds) -> tuple[dict, dict]:
    first = next(each for each in found.all if each["kind"] == "undefined")
    return first, json.loads(first["detail"])


def test_memory_that_was_never_written_is_named_with_the_line_that_made_it(train):
    model = nn.Linear(8, 8)

    def loss_of(_step: int) -> torch.Tensor:
        out = torch.empty(16, 8)
        out.numpy().fill(float("nan"))  # as old bytes may be
        out[:8] = model(inputs(8))
        return out.square().mean()

    first, detail = _first(train(model, loss_of, 1))
    assert detail["carrier"] == "unwritten" and first["precision"] == "excluded"
    file, _, line = detail["at"].rpartition(":")
    with open(file, encoding="utf-8") as lines:
        assert lines.read().splitlines()[int(line) - 1].strip() == "out = torch.empty(16, 8)"


def test_memory_that_was_written_is_not_called_so(train):
    model = nn.Linear(8, 8)
    bad = torch.full((16, 8), float("nan"))

    def loss_of(_step: int) -> torch.Tensor:
        out = torch.empty(16, 8)
        out.copy_(bad)
        return (out + model(inputs())).square().mean()

    _, detail = _first(train(model, loss_of, 1))
    assert detail["carrier"] != "unwritten"


def test_a_buffer_is_a_state_and_named(train):
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).eval()
    model[1].running_var.fill_(float("nan"))
    first, detail = _first(train(model, lambda _: model(inputs()).square().mean(), 1))
    assert (detail["carrier"], detail["whose"]) == ("state", "1.running_var")
    assert first["precision"] == "not_tested"


def test_a_teacher_is_a_state_and_not_data(train):
    model = nn.Linear(8, 8)
    teacher = copy.deepcopy(model).requires_grad_(False)
    with torch.no_grad():
        teacher.weight.fill_(float("nan"))

    def loss_of(_step: int) -> torch.Tensor:
        x = inputs()
        return (model(x) - teacher(x)).square().mean()

    first, detail = _first(train(model, loss_of, 1))
    assert detail["carrier"] == "state"
    assert detail["whose"] == "parameter weight of Linear"
    assert first["precision"] == "not_tested"


def test_an_average_in_a_list_is_a_state(train):
    model = nn.Linear(8, 8)
    average = [torch.zeros(8, 8)]

    def loss_of(step: int) -> torch.Tensor:
        with torch.no_grad():
            average[0].lerp_(model.weight, 0.1 if step < 3 else float("nan"))
        return (model(inputs()) @ average[0]).square().mean()

    with torch.no_grad():
        for _ in range(3):
            average[0].mul_(1.0)
        average[0].fill_(float("nan"))
    first, detail = _first(train(model, loss_of, 1))
    assert detail["carrier"] == "state" and first["precision"] == "not_tested"


def test_a_batch_is_data(train):
    model = nn.Linear(8, 8)
    rows = torch.full((16, 8), float("nan"))
    first, detail = _first(train(model, lambda _: model(rows).square().mean(), 1))
    assert detail["carrier"] == "data" and first["precision"] == "excluded"


def test_a_state_after_the_first_bad_step_explains_nothing(train):
    """Step 2 breaks the weights; in step 4, the next shadow step, a teacher carries that."""
    model = nn.Linear(8, 8)
    teacher = copy.deepcopy(model).requires_grad_(False)

    def loss_of(step: int) -> torch.Tensor:
        x = inputs()
        loss = (model(x) - teacher(x)).square().mean()
        with torch.no_grad():
            teacher.weight.lerp_(model.weight, 0.5)
        return loss * float("inf") if step == 2 else loss

    found = train(model, loss_of, 6, shadow="steps=4-5")
    late = [each for each in found.all if "from" in json.loads(each["detail"] or "{}")]
    assert late
    assert all(json.loads(each["detail"])["onset"] <= 3 for each in late)
    assert all(
        each["severity"] == "INFO"
        for each in late
        if json.loads(each["detail"])["carrier"] == "state"
    )
