"""The function around a line is found, made callable and given inputs; what cannot be run alone is
said to be so.
"""

from __future__ import annotations

import pathlib
import time

import pytest
import torch
from mpnanny.diff import Problem, diff_request
from mpnanny.diff.around import calls, locate
from mpnanny.programs.specification import make_inputs

FILE = pathlib.Path(__file__).parent / "suspects.py"
LINES = {
    line.rpartition("# ")[2].strip(): at
    for at, line in enumerate(FILE.read_text().splitlines(), 1)
    if "  # " in line and "noqa" not in line
}
RUN = (
    "dice focal masked_mean rms attention rotate schedule quantizer gram iou smoothed lookup"
    " static nested"
).split()


def of(mark):
    return locate(str(FILE), LINES[mark], "")


@pytest.mark.parametrize("mark", RUN)
def test_inputs_are_found_with_which_the_line_runs(mark):
    located = of(mark)
    found = []
    for call in calls(located, 0, 20.0):
        found.append(call)
        if len(found) == 2:
            break
    assert located.missing == []
    assert len(found) == 2
    call = found[0]
    again = {
        name: make_inputs([word], 0 + at)[0].value
        for at, (name, word) in enumerate(zip(call.kwargs, call.words, strict=True))
    }
    for name, value in call.kwargs.items():  # the words say what the values are
        assert type(again[name]) is type(value)
        if isinstance(value, torch.Tensor):
            assert again[name].shape == value.shape and again[name].dtype == value.dtype
    call.function(**call.kwargs)


def test_the_place_is_told():
    located = of("quantizer")
    assert located.qualname == "Quantizer.distances" and located.kind == "method"
    assert len(located.lines) == 5 and LINES["quantizer"] in located.lines
    assert of("nested").qualname == "nested"
    assert of("static").kind == "method"


@pytest.mark.parametrize(
    ("mark", "why"),
    [
        ("generator", "generator or a coroutine"),
        ("coroutine", "generator or a coroutine"),
        ("file", "No such file"),
        ("object", "no inputs were found"),
        ("endless", "longer than"),
        ("script", "SystemExit"),
        ("top", "not in a function"),
    ],
)
def test_what_cannot_be_run_alone_is_said(mark, why):
    began = time.monotonic()
    located = of(mark)
    if not located.missing:
        assert list(calls(located, 0, 5.0)) == []
    assert why in " ".join(located.missing)
    assert time.monotonic() - began < 10


def test_a_line_that_is_not_there():
    with pytest.raises(Problem, match="has .* lines, not 100000"):
        locate(str(FILE), 100_000, "")
    with pytest.raises(Problem, match="cannot be read"):
        locate("/nowhere.py", 1, "")


def proof_of(file, line, **options):
    request = {"finding": f"{file}:{line}", "dtype": "fp16", "policy": "pure", **options}
    return diff_request(request)


def test_a_suspicion_is_confirmed_with_the_input_that_shows_it(tmp_path):
    file = tmp_path / "losses.py"
    file.write_text(
        "import torch\n\ndef weights(x):\n    w = torch.exp(x)\n    return w / w.sum(-1, True)\n"
    )
    answer = proof_of(file, 4, root=str(tmp_path))
    proof = answer["proof"]
    assert (proof["result"], proof["function"], proof["line"]) == (
        "confirmed",
        "weights",
        "losses.py:4",
    )
    assert proof["input"] == ["float32[8,16]~normal(0,10)"]
    assert answer["first_bad"]["source"] == "losses.py:4"
    again = diff_request(
        {
            "function": f"{file}:weights",
            "input": proof["input"],
            "dtype": "fp16",
            "policy": "pure",
            "root": str(tmp_path),
        }
    )
    assert again["first_bad"]["source"] == "losses.py:4"


ROTARY = """import torch
from torch import nn

class Rotary(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("rates", 1.0 / base ** (torch.arange(0, dim, 2).float() / dim))

    def forward(self, t, device, dtype):
        at = torch.arange(t, device=device, dtype=dtype)
        angles = torch.outer(at, self.rates.to(dtype))
        return angles.cos(), angles.sin()
"""


@pytest.mark.parametrize(("dtype", "policy"), [("bf16", "pure"), ("bf16", "cuda-autocast")])
def test_a_dtype_and_a_device_are_arguments(dtype, policy, tmp_path):
    file = tmp_path / "rotary.py"
    file.write_text(ROTARY)
    answer = proof_of(file, 10, root=str(tmp_path), dtype=dtype, policy=policy)
    assert answer["proof"]["result"] == "confirmed"
    assert answer["proof"]["input"][0] == "2048" and answer["proof"]["input"][1] == "cpu"
    assert (answer["first_bad"]["what"], answer["first_bad"]["op"]) == ("integers", "aten.arange")
    # FP16 holds all of these positions.
    fine = proof_of(file, 10, root=str(tmp_path), dtype="fp16", policy="cuda-autocast")
    assert fine["proof"]["result"] == "not_at_these_inputs"


def test_a_suspicion_is_refuted_with_the_ranges_that_were_tried(tmp_path):
    file = tmp_path / "losses.py"
    file.write_text("import torch\n\ndef weights(x):\n    return torch.softmax(x.float(), -1)\n")
    proof = proof_of(file, 4, root=str(tmp_path))["proof"]
    assert proof["result"] == "not_at_these_inputs"
    assert {"normal(0,1)", "zeros", "offset(1000)"} <= {each["range"] for each in proof["tried"]}


def test_what_cannot_be_run_alone_is_not_established():
    answer = proof_of(FILE, LINES["object"])
    assert answer["verdict"] == "not_established"
    assert answer["proof"]["result"] == "cannot_be_run_alone" and answer["proof"]["missing"]
