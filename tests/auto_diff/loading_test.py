"""What trains at the top level of a file is not run when something of it is tried."""

from __future__ import annotations

import pytest
from mpnanny.diff import Problem, diff_request
from mpnanny.programs.loading import load_file

SCRIPT = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, n=8):
        super().__init__()
        self.a = nn.Linear(n, n)

    def forward(self, x):
        return self.a(x).exp()

def one_step(model, x):
    loss = model(x).mean()
    loss.backward()
    return loss

class Fitter:
    def run(self, model):
        one_step(model, torch.ones(2, 8))

table = [each * 2 for each in range(4)]
net = Net()
"""


def load(folder, name, rest):
    file = folder / f"{name}.py"
    file.write_text(SCRIPT + rest)
    return load_file(str(file), str(folder))


@pytest.mark.parametrize(
    "training",
    [
        "for step in range(3):\n    net(torch.ones(2, 8)).mean().backward()\n    1 / 0\n",
        "one_step(net, torch.ones(2, 8)); 1 / 0\n",
        "Fitter().run(net)\n",
        "trainer = object()\ntrainer.fit(net)\n",
        "with torch.autograd.set_detect_anomaly(True):\n    one_step(net, 1 / 0)\n",
    ],
)
def test_training_is_left_out(tmp_path, training):
    name = f"script_{abs(hash(training))}"
    # `1 / 0` behind a semicolon is a statement of its own.
    module = load(tmp_path, name, training.replace("; 1 / 0", ""))
    assert module.net.a.weight.grad is None
    assert module.table == [0, 2, 4, 6]


def test_what_does_not_train_is_run(tmp_path):
    module = load(
        tmp_path,
        "script_that_prepares",
        "sizes = []\nfor n in range(3):\n    sizes.append(n)\nnet.train()\n"
        "class Scaler:\n    def fit(self, x):\n        return self\nscaler = Scaler().fit(1)\n",
    )
    assert module.sizes == [0, 1, 2]
    assert isinstance(module.scaler, module.Scaler)


def test_what_the_training_would_have_made_is_named(tmp_path):
    file = tmp_path / "script_with_result.py"
    file.write_text(SCRIPT + "for step in range(3):\n    last = one_step(net, torch.ones(2, 8))\n")
    with pytest.raises(Problem, match="makes 'last', and trains"):
        diff_request({"function": f"{file}:last", "root": str(tmp_path)})


def test_a_class_beside_one_that_is_compiled_is_tried(tmp_path):
    file = tmp_path / "script_compiled.py"
    file.write_text(SCRIPT + "fast = torch.compile(net, backend='eager')\nfast(torch.ones(2, 8))\n")
    request = {"input": ["float32[4,8]~normal(0,1)"], "dtype": "bf16", "root": str(tmp_path)}
    assert diff_request({**request, "function": f"{file}:Net"})["verdict"] == "clean"
    assert diff_request({**request, "function": f"{file}:fast"})["verdict"] == "clean"
