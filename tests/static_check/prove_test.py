"""`mpnanny check --prove` from outside: what is proven, what its healthy twin gets, where arguments
come from, and what is said of what cannot be tried.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("MPNANNY_PROGRAM", ROOT / "build/release/bin/mpnanny"))

# `normalised` and its twin take a module and a configuration that only train.py makes.
LOSSES = """\
import torch


def safe_log(t, eps=1e-20):
    return t.clamp(min=eps).log()  # log


def normalised(x, model, config):
    h = model.embed(x)
    return h / (h * h + config.small).sqrt()  # bad


def normalised_well(x, model, config):
    h = model.embed(x)
    return h / (h * h + config.large).sqrt()  # good
"""
TRAIN = """\
import torch
from torch import nn

from losses import normalised, normalised_well


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(16, 16)
        nn.init.zeros_(self.embed.weight[:4])
        nn.init.zeros_(self.embed.bias[:4])


class Config:
    small, large = 1e-8, 1e-3


def main():
    {first}
    net = Net().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(8, 16, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = normalised(x, net, Config()).sum() + normalised_well(x, net, Config()).sum()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""


def write(folder: Path, first: str = "pass", losses: str = LOSSES) -> Path:
    (folder / "losses.py").write_text(losses)
    (folder / "train.py").write_text(TRAIN.replace("{first}", first))
    return folder


def check(*words: Any, seconds: int = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, "check", *map(str, words), "--prove", "--python", sys.executable],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def proofs(folder: Path, *words: Any, losses: str = LOSSES) -> dict[str, dict[str, Any]]:
    """By the mark at the end of a line of losses.py."""
    done = check(folder, "--detail", "candidates", "--format", "json", *words)
    assert done.returncode == 0, done.stderr
    lines = losses.splitlines()
    return {
        lines[each["line"] - 1].rpartition("# ")[2]: each["proof"]
        for each in json.loads(done.stdout)["candidates"]
        if each["path"].endswith("losses.py") and "# " in lines[each["line"] - 1]
    }


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return proofs(write(tmp_path_factory.mktemp("whole")))


def test_a_call_of_the_program_itself_proves_what_needs_its_module_and_its_configuration(told):
    proof = told["bad"]
    assert proof["verdict"] == "proven", proof
    assert "Inf or NaN" in proof["why"] and "its call in train.py" in proof["why"]
    assert proof["entry_point"] == "train.py" and proof["dtype"] == "fp16"
    assert "model=Net" in proof["inputs"] and "x=float32[8,16]" in proof["inputs"]


def test_its_healthy_twin_is_tried_with_the_same_call_and_shows_nothing(told):
    proof = told["good"]
    assert proof["verdict"] == "not_at_these_inputs", proof
    assert proof["entry_point"] == "train.py" and "error" not in proof


def test_a_function_that_runs_alone_is_proven_with_made_inputs(told):
    proof = told["log"]
    assert proof["verdict"] == "proven", proof
    assert "entry_point" not in proof and "float16[" in proof["inputs"]
    assert proof["error_in_fp32"] < 1e-3


def test_an_entry_point_that_fails_is_named_with_its_error(tmp_path):
    proof = proofs(write(tmp_path, "open('no_such_batches.bin')"))["bad"]
    assert proof["verdict"] == "not_tried"
    said = "its entry point train.py ended with FileNotFoundError: "
    assert proof["why"].startswith(said) and "no_such_batches.bin" in proof["why"]


def test_an_entry_point_that_asks_for_arguments_says_so(tmp_path):
    first = (
        "import argparse; p = argparse.ArgumentParser(); "
        "p.add_argument('--data', required=True); p.parse_args()"
    )
    proof = proofs(write(tmp_path, first))["bad"]
    assert proof["verdict"] == "not_tried" and "required: --data" in proof["why"]


def test_the_limit_of_time_is_for_all_together(tmp_path):
    began = time.monotonic()
    told = proofs(write(tmp_path, "while True: pass"), "--timeout-s", "8")
    assert time.monotonic() - began < 60
    assert told["bad"]["verdict"] == told["good"]["verdict"] == "not_tried"
    assert "longer than" in told["bad"]["why"]


def test_a_file_that_ends_the_process_costs_its_own_proofs_only(tmp_path):
    write(tmp_path)
    dead = "import os\nimport torch\n\nos._exit(3)\n\n\ndef f(t, eps=1e-20):\n"
    (tmp_path / "dead.py").write_text(dead + "    return -t.clamp(min=eps).log().mean()\n")
    done = check(tmp_path, "--detail", "candidates", "--format", "json")
    told = {
        (Path(each["path"]).name, each["line"]): each["proof"]
        for each in json.loads(done.stdout)["candidates"]
    }
    assert told["dead.py", 8]["verdict"] == "not_tried"
    assert "exit code 3" in told["dead.py", 8]["why"]
    assert told["losses.py", 5]["verdict"] == "proven"


def test_broken_python_is_not_tried_and_takes_nothing_with_it(tmp_path):
    broken = LOSSES + "\n\ndef half(x:\n    return x +\n"
    told = proofs(write(tmp_path, losses=broken), losses=broken)
    assert told and all(each["verdict"] == "not_tried" for each in told.values())
    assert "no valid Python" in told["log"]["why"]


WARNED = """\
import torch


def inverse(x):
    weights = x.half()
    return 1.0 / (weights * weights + 1e-8)
"""


def test_a_warning_has_its_proof_beneath_it_and_in_sarif(tmp_path):
    (tmp_path / "weights.py").write_text(WARNED)
    done = check(tmp_path)
    assert done.returncode == 1 and "eps-underflow-fp16" in done.stdout, done.stdout + done.stderr
    line = next(each for each in done.stdout.splitlines() if "proven: " in each)
    assert "weights.py:6" in line
    assert "Put to the test: 1 proven" in done.stdout
    result = json.loads(check(tmp_path, "--format", "sarif").stdout)["runs"][0]["results"][0]
    assert result["properties"]["proof"]["verdict"] == "proven"


def test_a_server_that_may_not_run_code_says_what_to_do(tmp_path):
    asked = {"paths": [str(write(tmp_path))], "prove": True}
    done = subprocess.run(
        [PROGRAM, "call", "static_check", "--root", tmp_path, "--args", json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "--allow-exec" in done.stderr and "mpnanny install" in done.stderr
