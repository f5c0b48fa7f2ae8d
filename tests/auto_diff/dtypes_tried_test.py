"""A suspicion of 16 bits is cleared by a trial that met 16 bits, and by no other."""

from __future__ import annotations

import pytest
from mpnanny.diff import Problem, diff_request

LOSS = "import torch\n\n\ndef loss(x):\n    return torch.exp(x).mean()\n"


def proof_of(folder, text, line, **options):
    file = folder / "losses.py"
    file.write_text(text)
    request = {"finding": f"{file}:{line}", "dtype": "fp16", "root": str(folder), **options}
    return diff_request(request)


def test_what_autocast_leaves_alone_is_tried_as_a_layer_would_give_it(tmp_path):
    proof = proof_of(tmp_path, LOSS, 5)["proof"]
    assert proof["result"] == "confirmed"
    assert proof["input"] == ["float16[8,16]~normal(0,10)"]


def test_callers_that_cast_to_fp32_leave_nothing_to_try(tmp_path):
    text = LOSS + "\n\ndef step(model, x):\n    out = model(x).float()\n    return loss(out)\n"
    answer = proof_of(tmp_path, text, 5)
    assert answer["proof"]["result"] == "not_in_low_precision"
    assert answer["verdict"] == "not_established"
    assert answer["operators_in_low"] == 0 < answer["operators"]
    assert {each["dtypes"] for each in answer["proof"]["tried"]} == {"float32"}


def test_code_that_widens_its_inputs_is_cleared(tmp_path):
    text = LOSS.replace("torch.exp(x)", "torch.exp(x.float().clamp(max=5))")
    proof = proof_of(tmp_path, text, 5)["proof"]
    assert proof["result"] == "not_at_these_inputs"
    assert {each["dtypes"] for each in proof["tried"]} == {"float16", "float32"}


@pytest.mark.parametrize(
    ("word", "verdict"),
    [("float32[8]~normal(0,10)", "not_established"), ("float16[8]~normal(0,10)", "broken")],
)
def test_a_function_of_which_nothing_ran_low_is_not_clean(tmp_path, word, verdict):
    (tmp_path / "losses.py").write_text(LOSS)
    answer = diff_request(
        {
            "function": f"{tmp_path}/losses.py:loss",
            "input": [word],
            "dtype": "fp16",
            "root": str(tmp_path),
        }
    )
    assert answer["verdict"] == verdict
    assert ("nothing_in_low_precision" in answer["limits"]) == (verdict == "not_established")


def test_an_optimizer_is_a_function_of_a_weight_and_its_gradient(tmp_path):
    text = (
        "import torch\n\n\nclass Plain(torch.optim.Optimizer):\n"
        "    def __init__(self, params, lr):\n        super().__init__(params, {'lr': lr})\n\n"
        "    @torch.no_grad()\n    def step(self):\n        for group in self.param_groups:\n"
        "            for p in group['params']:\n"
        "                p.sub_(group['lr'] * p.grad / (p.grad.square().sqrt() + 1e-9))\n"
    )
    proof = proof_of(tmp_path, text, 12, policy="pure")["proof"]
    assert proof["result"] == "confirmed"
    answer = diff_request(
        {
            "function": f"{tmp_path}/losses.py:Plain",
            "args": ["lr=0.1"],
            "input": ["float32[8]~normal(0,1)", "float32[8]~zeros"],
            "dtype": "fp16",
            "policy": "pure",
            "root": str(tmp_path),
        }
    )
    assert answer["verdict"] == "broken"


def test_a_line_that_stops_in_fp32_is_the_codes(tmp_path):
    (tmp_path / "losses.py").write_text(
        "import torch\n\n\ndef join(x):\n    y = x.exp()\n    return torch.cat([y, y.sum()])\n"
    )
    with pytest.raises(Problem) as raised:
        diff_request(
            {
                "function": f"{tmp_path}/losses.py:join",
                "input": ["float32[8]"],
                "root": str(tmp_path),
            }
        )
    assert "losses.py:6 (return torch.cat([y, y.sum()]))" in raised.value.message


@pytest.mark.parametrize("args", [["64"], ["n=64"], ["(64,)"]])
def test_words_of_a_command_line_are_numbers_and_tuples(tmp_path, args):
    (tmp_path / "norms.py").write_text(
        "import torch\n\n\nclass Norm(torch.nn.Module):\n    def __init__(self, n):\n"
        "        super().__init__()\n        self.gain = torch.nn.Parameter(torch.ones(n))\n\n"
        "    def forward(self, x):\n        return x * self.gain\n"
    )
    answer = diff_request(
        {
            "function": f"{tmp_path}/norms.py:Norm",
            "args": args,
            "input": ["float32[2,64]"],
            "root": str(tmp_path),
            "policy": "pure",
        }
    )
    assert answer["verdict"] == "clean"
