"""The precision that auto_diff tries where nobody chose one: what the file says it trains in."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from mpnanny.diff.said_precision import said_precision
from tool_test import PROGRAM

BOTH = ("cuda-autocast", "cpu-autocast")


@pytest.mark.parametrize(
    ("code", "dtype", "policies"),
    [
        ('with torch.autocast("cuda", dtype=torch.float16): f()', "fp16", ("cuda-autocast",)),
        ('with torch.autocast("cuda:0", torch.bfloat16): f()', "bf16", ("cuda-autocast",)),
        ('with torch.autocast(device_type="cpu"): f()', "bf16", ("cpu-autocast",)),
        ("with torch.cuda.amp.autocast(): f()", "fp16", ("cuda-autocast",)),
        ("with torch.cpu.amp.autocast(dtype=torch.float16): f()", "fp16", ("cpu-autocast",)),
        (
            'D = "cuda"\nT = torch.half\nwith torch.autocast(D, dtype=T): f()',
            "fp16",
            ("cuda-autocast",),
        ),
        ("model = Net().half()", "fp16", ("pure",)),
        ("self.model.bfloat16()", "bf16", ("pure",)),
        ('model.to("cuda", torch.bfloat16)', "bf16", ("pure",)),
        # The device is known only when it runs.
        ("with torch.autocast(device, dtype=torch.float16): f()", "fp16", BOTH),
        (
            "def main():\n    low = torch.bfloat16\n"
            "    with torch.autocast(device_type=x.device.type, dtype=low): f()",
            "bf16",
            BOTH,
        ),
        (
            'torch.autocast("cuda", torch.half)\ntorch.autocast("cpu", torch.half)',
            "fp16",
            BOTH,
        ),
        ('accelerator = Accelerator(mixed_precision="bf16")', "bf16", BOTH),
        ('trainer = L.Trainer(max_epochs=1, precision="16-mixed")', "fp16", BOTH),
        ('trainer = L.Trainer(precision="bf16-true")', "bf16", ("pure",)),
        ("arguments = TrainingArguments(fp16=True)", "fp16", BOTH),
        ("arguments = TrainingArguments(fp16=False)", "", ()),
        # What says nothing, or says two things.
        ("with torch.autocast(device): f()", "", ()),
        (
            "def step(low=torch.half):\n    with torch.autocast(device, dtype=low): f()\n"
            "low = torch.half",
            "",
            (),
        ),
        (
            "low = torch.half\nlow = torch.bfloat16\nwith torch.autocast(device, low): f()",
            "",
            (),
        ),
        ("x = x.half()", "", ()),
        ('model.to("cuda")', "", ()),
        ('with torch.autocast("cuda", enabled=False): f()', "", ()),
        ('with torch.autocast("cuda", dtype=options.dtype): f()', "", ()),
        ('torch.autocast("cuda", torch.half)\ntorch.autocast("cuda", torch.bfloat16)', "", ()),
        ("def broken(:", "", ()),
    ],
)
def test_literals_are_read(code, dtype, policies, tmp_path):
    file = tmp_path / "train.py"
    file.write_text("import torch\n" + code + "\n")
    said = said_precision(str(file))
    assert (said.dtype, said.policies) == (dtype, policies)
    assert len(said.lines) == bool(dtype)


MODEL = """\
import torch
from torch import nn
def build():
    return nn.Linear(8, 4)
def train(model, x):
    with torch.autocast("cuda", dtype=torch.float16):
        return model(x)
"""


def answered(folder, *words):
    (folder / "model.py").write_text(MODEL)
    done = subprocess.run(
        [PROGRAM, "diff", *words, "--python", sys.executable],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout or done.stderr


ASKED = ("--model", "model.py:build", "--input", "float32[4,8]")


def test_the_file_decides_and_the_answer_says_so(tmp_path):
    told = answered(tmp_path, *ASKED).splitlines()
    assert "in FP16 under cuda-autocast" in told[0]
    assert told[1].startswith(
        "Tried FP16 under cuda-autocast, as the code says: model.py:6 torch.autocast("
    )


def test_who_asks_decides_before_the_file(tmp_path):
    answer = json.loads(answered(tmp_path, *ASKED, "--dtype", "bf16", "--format", "json"))
    assert (answer["dtype"], answer["policy"]) == ("bf16", "cuda-autocast")
    told = answered(tmp_path, *ASKED, "--dtype", "bf16", "--policy", "pure")
    assert "in BF16 under pure" in told
    assert "Tried" not in told


def test_a_file_that_says_nothing_gets_the_default(tmp_path):
    told = answered(tmp_path, "--code", "def f(x):\n    return x @ x", "--input", "float32[4,4]")
    assert "Tried BF16 under cuda-autocast: the code says no other" in told.splitlines()[1]


SUMS = """\
import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
def loss(pred, target):
    return (pred - target).pow(2).sum() / 4
def train(model, x, y):
    with torch.autocast(device, dtype=torch.float16):
        return loss(model(x), y)
"""


def test_a_device_of_the_moment_is_tried_with_both_lists(tmp_path):
    (tmp_path / "sums.py").write_text(SUMS)
    # CUDA's list computes powers in FP32, the CPU's does not.
    told = answered(tmp_path, "--finding", "sums.py:4").splitlines()
    assert told[0].startswith("sums.py:4 (loss): CONFIRMED")
    assert told[1].startswith("loss in FP16 under cpu-autocast")
    assert told[2] == (
        "Tried FP16, as the code says: sums.py:6 torch.autocast(device, dtype=torch.float16). It "
        "names no device before it runs: tried under cuda-autocast, cpu-autocast; the worse one is "
        "shown."
    )


def test_of_both_lists_the_worse_is_told(tmp_path):
    (tmp_path / "sums.py").write_text(SUMS)
    inputs = ("--input", "float16[64,1000]~normal(0,300)") * 2
    asked = ("--function", "sums.py:loss", *inputs)
    answer = json.loads(answered(tmp_path, *asked, "--format", "json"))
    assert answer["policies_tried"] == list(BOTH)
    assert (answer["dtype"], answer["policy"]) == ("fp16", "cpu-autocast")
    assert answer["verdict"] == "broken"
    told = answered(tmp_path, *asked, "--policy", "cuda-autocast").splitlines()
    assert "in FP16 under cuda-autocast (emulated): clean" in told[0]


LOOP = "import torch\nw = torch.zeros(3)\nfor step in range(2):\n    w = w + 1\n"


@pytest.mark.parametrize("words", ["loop.py", "loop.py:build", "loop.py:w"])
@pytest.mark.parametrize("command", ["diff", "precision"])
def test_a_loop_without_a_name_is_sent_to_the_recorder(words, command, tmp_path):
    (tmp_path / "loop.py").write_text(LOOP)
    done = subprocess.run(
        [PROGRAM, command, "--model", words, "--python", sys.executable],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "`mpnanny run -- python " in done.stderr
    assert "loop.py` records it" in done.stderr
    assert "`mpnanny precision --run nanny_logs/metrics.db`" in done.stderr
