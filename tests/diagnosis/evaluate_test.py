"""What judges the diagnoses: labels, the witness, and what counts as right."""

from __future__ import annotations

import json
import pathlib

import programs
import pytest
import torch
from evaluate import judge, same_place
from planted import PROGRAMS, VARIANTS, Witness
from torch import nn

assert programs
LABELS = json.loads((pathlib.Path(__file__).parent / "labels.json").read_text())


def test_every_training_has_a_label_in_every_variant():
    assert set(LABELS) == set(PROGRAMS)
    assert all(set(each) == {str(v) for v in VARIANTS} for each in LABELS.values())


def test_there_are_as_many_kinds_of_failure_as_were_promised():
    planted = [each["1"] for each in LABELS.values() if each["1"]["verdict"] != "healthy"]
    causes = {str(label["cause"]) for label in planted}
    others = {str(label["cause"]) for label in planted if not label["precision"]}
    assert len(planted) >= 24 and len(LABELS) - len(planted) >= 6
    assert len(causes) >= 12 and len(others) >= 5


def test_the_bad_step_or_its_layer_moves_with_the_variant():
    for name, each in LABELS.items():
        steps = {str(label["first_bad"]) for label in each.values()}
        places = {str(label["producer"]) for label in each.values()}
        assert len(steps) > 1 or len(places) > 1 or steps <= {"None", "[0, 1]", "[0, 1, 2]"}, name


@pytest.mark.parametrize(
    ("layer", "label", "same"),
    [
        ("blocks.1.attn", "blocks.1.attn", True),
        ("blocks.1.attn.to_q", "blocks.1.attn", True),
        ("blocks.1.attn: aten.bmm (model.py:12)", "blocks.1.attn", True),
        ("blocks.1", "blocks.1.attn", False),
        ("blocks.10", "blocks.1", False),
        ("aten.log (train.py:47)", None, True),
        ("", None, True),
        ("head", None, False),
        ("", "head", False),
        ("2.weight", [None, "2"], True),
    ],
)
def test_a_place_is_its_module_its_children_and_its_operators(layer, label, same):
    assert same_place(layer, label) is same


LABEL = {
    "name": "x",
    "variant": 1,
    "cause": "a",
    "first_bad": [3, 4],
    "producer": None,
    "verdict": "broken",
}


def test_a_run_that_is_called_healthy_has_nothing_right():
    result = judge(LABEL, {"verdict": "healthy", "first_bad": None, "hypotheses": []})
    assert (result.cause, result.step, result.producer, result.verdict) == (False,) * 4


def test_only_the_first_hypothesis_and_the_exact_step_count():
    answer = {
        "verdict": "broken",
        "first_bad": {"step": 4, "layer": ""},
        "hypotheses": [{"cause": "a"}, {"cause": "b"}],
    }
    assert judge(LABEL, answer).cause and judge(LABEL, answer).step
    answer["hypotheses"].reverse()
    answer["first_bad"]["step"] = 5
    assert not judge(LABEL, answer).cause and not judge(LABEL, answer).step


def test_the_witness_blames_the_container_for_what_its_children_get():
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x / 0.0)

    model = nn.Sequential(nn.Linear(2, 2), Block())
    witness = Witness(model)
    with witness.step(5):
        model(torch.ones(1, 2))
    assert witness.first == (5, "forward", "1")
