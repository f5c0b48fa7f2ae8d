"""Inputs in words."""

from __future__ import annotations

import math

import pytest
import torch
from mpnanny.diff import Problem
from mpnanny.programs.specification import make_inputs


def value_of(word, seed=0):
    (made,) = make_inputs([word], seed)
    return made.value


def test_shape_dtype_and_distribution_are_those_of_the_word():
    x = value_of("float16[1000,50]~normal(3,0.5)")
    assert x.shape == (1000, 50) and x.dtype is torch.float16
    assert abs(x.double().mean().item() - 3) < 0.02 and abs(x.double().std().item() - 0.5) < 0.02
    y = value_of("float32[100000]~lognormal(0,4)").double().log()
    assert abs(y.mean().item()) < 0.1 and abs(y.std().item() - 4) < 0.1
    z = value_of("bf16[4000]~uniform(-2,1)")
    assert z.dtype is torch.bfloat16 and -2 <= z.min().item() < -1.9 and 0.9 < z.max().item() <= 1
    ids = value_of("int64[5000]<7")
    assert ids.dtype is torch.int64 and sorted(ids.unique().tolist()) == list(range(7))
    assert abs(value_of("bool[10000]~bernoulli(0.9)").double().mean().item() - 0.9) < 0.02


def test_corner_values():
    assert value_of("fp16[3]~max").tolist() == [65504.0, -65504.0, 65504.0]
    assert torch.equal(
        value_of("float32[4,5]~equal_rows")[0], value_of("float32[4,5]~equal_rows")[3]
    )
    assert value_of("float32[2]~constant(-inf)").tolist() == [-math.inf, -math.inf]
    assert value_of("bool[2,2]~masked").all() and not value_of("bool[2,2]~unmasked").any()
    assert value_of("float32[]~constant(2)").shape == ()
    assert value_of("float32[0,4]").numel() == 0
    assert 900 < value_of("float32[100]~offset(1000)").min().item()
    assert value_of("int64[2,3]~arange").tolist() == [[0, 1, 2], [3, 4, 5]]


def test_the_same_word_and_seed_give_the_same_numbers_and_touch_no_generator():
    before = torch.get_rng_state()
    assert torch.equal(value_of("float32[9]~normal(0,1)", 3), value_of("float32[9]", 3))
    assert not torch.equal(value_of("float32[9]", 3), value_of("float32[9]", 4))
    assert torch.equal(before, torch.get_rng_state())


def test_names_and_plain_numbers():
    made = make_inputs(["x=float32[2]~ones", "eps=1e-5", "3", "causal=True"], 0)
    assert [(each.name, each.value) for each in made[1:]] == [
        ("eps", 1e-5),
        ("", 3),
        ("causal", True),
    ]
    assert made[0].name == "x"


def test_files(tmp_path):
    numpy = pytest.importorskip("numpy")
    torch.save({"x": torch.ones(2), "y": torch.zeros(3)}, tmp_path / "batch.pt")
    numpy.save(tmp_path / "a.npy", numpy.arange(4.0))
    made = make_inputs([f"{tmp_path / 'batch.pt'}", f"z={tmp_path / 'a.npy'}"], 0)
    assert [(each.name, tuple(each.value.shape)) for each in made] == [
        ("x", (2,)),
        ("y", (3,)),
        ("z", (4,)),
    ]
    assert make_inputs([f"{tmp_path / 'batch.pt'}#y"], 0)[0].value.shape == (3,)
    with pytest.raises(Problem, match="has no 'w'"):
        make_inputs([f"{tmp_path / 'batch.pt'}#w"], 0)


@pytest.mark.parametrize(
    ("word", "what"),
    [
        ("float31[2]", "no dtype"),
        ("float32[2]~cauchy", "no way to draw"),
        ("float32[2]~normal(0,1,2)", "takes 2 numbers"),
        ("float32[2]~normal(a)", "takes 2 numbers"),
        ("int64[2]", "How are the integers"),
        ("int64[2]<0", "No integer"),
        ("float32[99999999999]", "more than"),
        ("nowhere.pt", "neither a description"),
        ("", "neither a description"),
        ("float32[2", "neither a description"),
    ],
)
def test_what_is_wrong_is_said(word, what):
    with pytest.raises(Problem, match=what) as raised:
        make_inputs([word], 0)
    assert raised.value.advice


def test_a_pickle_that_executes_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "made"), "w"))

    torch.save(Evil(), tmp_path / "evil.pt")
    with pytest.raises(Problem, match="cannot be read"):
        make_inputs([str(tmp_path / "evil.pt")], 0)
    assert not (tmp_path / "made").exists()
