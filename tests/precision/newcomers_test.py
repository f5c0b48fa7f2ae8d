"""What somebody meets who asks for the first time: batches of (x, y), a model that stops, minutes
of measuring, a recommendation beside what beats it.
"""

from __future__ import annotations

import pytest
import torch
from mpnanny.precision import choose_request
from mpnanny.programs.problem import Problem
from mpnanny.programs.program import Options, Program
from mpnanny.programs.specification import values_of
from mpnanny.programs.target import Target
from torch import nn

MODEL = """
import torch
from torch import nn

def build():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

def batches(step):
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
    return x, x.sum(1).abs().long() % 4

def loss(out, y):
    return nn.functional.cross_entropy(out, y)

class Stops(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(8, 8)

    def forward(self, x, y):
        return self.one(x)[:, y.max() + 100]

def missing():
    with open("no_such_file.json") as file:
        return file.read()
"""


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    return file


def request_of(file, name="build", **options):
    return {
        "model": f"{file}:{name}",
        "batches": f"{file}:batches",
        "device": "a100",
        "root": str(file.parent),
        **options,
    }


def test_labels_of_a_batch_go_to_the_loss(file):
    answer = choose_request(
        request_of(file, loss=f"{file}:loss", ways=["bf16-autocast"], **{"try": 3})
    )
    assert answer["error"]["loss"] is not None
    assert len(answer["trial"]["fp32"]["losses"]) == 3


def test_labels_that_nothing_takes_are_said(file):
    with pytest.raises(Problem, match="takes fewer inputs than a batch has") as raised:
        choose_request(request_of(file))
    assert "loss" in raised.value.advice


def test_a_model_that_stops_is_told_in_one_line(file):
    with pytest.raises(Problem) as raised:
        choose_request(request_of(file, "Stops"))
    assert "model.py:" in raised.value.message and "self.one(x)[:, y.max() + 100]" in (
        raised.value.message
    )
    assert raised.value.message.count("\n") == 0


def test_progress_is_told_within_a_way(file):
    told = []
    choose_request(
        request_of(file, loss=f"{file}:loss", ways=["bf16-autocast"]),
        lambda done, what: told.append((done, what)),
    )
    passes = [what for _, what in told if "pass" in what]
    assert len(passes) > 3
    shares = [done for done, _ in told]
    assert shares == sorted(shares) and shares[-1] <= 1


def test_a_target_takes_what_it_has_names_for():
    target = Target("model", lambda: nn.Linear(4, 2), "")
    options = Options(loss=nn.functional.cross_entropy)
    sample = (torch.ones(3, 4), torch.tensor([0, 1, 1]))
    program = Program(target, values_of(sample), options)
    case = program.attempt(None)
    assert len(case.args) == 1 and case.labels[0].tolist() == [0, 1, 1]
