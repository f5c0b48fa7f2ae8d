"""What commands print is in the words of who types them: commands and options, no tool and no
argument of one. What the server says is in the words of MCP.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
PROGRAM = ROOT / "build/release/bin/mpnanny"
TOOLS = {
    each["name"]: each
    for each in (json.loads(p.read_text()) for p in ROOT.glob("tests/snapshots/tools/*.json"))
}
ARGUMENTS = {name for tool in TOOLS.values() for name in tool["inputSchema"]["properties"]}
UNDERSCORED = {name for name in ARGUMENTS if "_" in name and name not in ("loss_scale",)}
HAS_TORCH = all(importlib.util.find_spec(each) for each in ("torch", "mpnanny"))

LOSSES = "".join(f"step {n} loss {2.3 - n / 100:.3f}\n" for n in range(40))
SCRIPT = """\
import torch
scaler = torch.amp.GradScaler("cuda")
def train(model, optimizer, batches):
    for x, y in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x, y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


def said(*words, cwd, typed=None):
    done = subprocess.run(
        [PROGRAM, *words],
        cwd=cwd,
        input=typed or "",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def of_mcp(text):
    """The words of `text` that only an MCP client has."""
    found = [f"`{name}`" for name in ARGUMENTS if f"`{name}`" in text]
    found += [name for name in UNDERSCORED if re.search(rf"(?<![\w`./-]){name}(?![\w(])", text)]
    found += [name for name in TOOLS if re.search(rf"(?<![\w./]){name}(?![\w(/.]\w?)", text)]
    found += re.findall(r"\b(?:paths|run|log|code|model)=\[?[\w\[/]+", text)
    return found


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "bad.log").write_text(LOSSES + "step 40 loss nan\nstep 41 loss nan\n")
    (tmp_path / "good.log").write_text(LOSSES)
    return tmp_path


@pytest.mark.parametrize("tool", TOOLS)
def test_help_is_about_options(tool, tmp_path):
    words = {
        "analyze_tensor": ["analyze"],
        "auto_diff": ["diff"],
        "choose_precision": ["precision"],
        "compare_logprobs": ["mismatch"],
        "compare_runs": ["compare"],
        "diagnose_run": ["diagnose"],
        "list_runs": ["runs"],
        "query_alerts": ["alerts"],
        "query_stats": ["stats"],
        "run_summary": ["summary"],
        "search_knowledge": ["knowledge", "search"],
        "static_check": ["check"],
    }[tool]
    told = said(*words, "--help", cwd=tmp_path)
    assert "Usage: mpnanny " + " ".join(words) in told
    assert of_mcp(told) == []
    assert "--allow-exec" not in told


@pytest.mark.parametrize(
    "words",
    [
        ["diagnose", "bad.log"],
        ["diagnose", "good.log"],
        ["diagnose", "bad.log", "--paths", "train.py"],
        ["diagnose", "--log-path", "bad.log", "--log-text", "loss nan"],
        ["diagnose", "train.py"],
        ["diagnose", "nothing.db"],
        ["check", "train.py"],
        ["check"],
        ["check", "--code", "x = 1", "--diff", "HEAD"],
        ["check", "train.py", "--detail", "map"],
        ["check", "train.py", "--detail", "candidates"],
        ["compare", "bad.log", "good.log"],
        ["compare", "good.log", "good.log", "--final-a", "1"],
        ["mismatch"],
        ["mismatch", "bad.log"],
        ["mismatch", "train.py", "train.py"],
        ["runs", "."],
        ["runs", "bad.log"],
        ["alerts", "bad.log"],
        ["stats", "bad.log", "--metric", "distribution"],
        ["stats", "bad.log", "--metric", "loss", "--layers", "x"],
        ["summary", "bad.log"],
        ["knowledge", "search", "loss is nan"],
        ["knowledge", "show", "nosuchcase"],
        ["analyze", "train.py"],
        ["diff"],
        ["precision"],
        ["precision", "--run", "bad.log"],
        ["precision", "--run", "bad.log", "--lr", "1"],
        ["capture", "model.pt2", "-o", "out"],
    ],
    ids=" ".join,
)
def test_answers_and_errors_are_in_options(words, folder):
    told = said(*words, cwd=folder)
    assert told
    assert of_mcp(told) == []
    assert "--allow-exec" not in told


@pytest.mark.skipif(not HAS_TORCH, reason="torch or the monitor's extension is missing")
@pytest.mark.parametrize(
    "words",
    [
        ["diff", "--code", "def f(x):\n    return x.exp().sum()", "--dtype", "fp16"],
        ["diff", "--code", "def f(x):\n    return x + 1", "--input", "float32[4]~normal(0,1)"],
        ["diff", "--model", "train.py:nothing"],
        ["diff", "--finding", "train.py:7"],
        ["diff", "--code", "import time\ntime.sleep(60)", "--timeout-s", "5"],
        ["precision", "--model", "train.py:train"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_what_was_run_is_told_in_options(words, folder):
    told = said(*words, "--python", sys.executable, cwd=folder)
    assert told
    assert of_mcp(told) == []


def test_a_server_names_arguments(folder):
    for tool, arguments, words in (
        ("static_check", {}, "`paths`"),
        ("diagnose_run", {}, "`log_path`"),
        ("auto_diff", {}, "`finding`"),
    ):
        told = said("call", tool, "--args", json.dumps(arguments), "--root", ".", cwd=folder)
        assert words in told
