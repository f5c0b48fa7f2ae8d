"""`mpnanny report` of real recordings: one file that fetches nothing, in which names are text."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess

import pytest
import torch
from mpnanny import MixedPrecisionNanny
from torch import nn

PROGRAM = pathlib.Path(__file__).parents[2] / "build" / "release" / "bin" / "mpnanny"
HOSTILE = "</script><script>alert(1)</script><!--"


def record(path: pathlib.Path, steps: int, bad: bool = False) -> None:
    model = nn.Sequential()
    model.add_module(HOSTILE, nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with MixedPrecisionNanny(model, optimizer, db=str(path), trace_interval=1, quiet=True) as nanny:
        for step in range(steps):
            with nanny.step(step) as s:
                loss = model(torch.randn(8, 4)).square().mean() * (float("nan") if bad else 1.0)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                s.log(loss=loss)


def report(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [str(PROGRAM), "report", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("steps", "bad"), [(0, False), (1, False), (12, False), (12, True)])
def test_a_page_of_any_run_is_whole_and_holds_names_as_text(tmp_path, steps, bad):
    record(tmp_path / "run.db", steps, bad)
    made = report(tmp_path / "run.db", "-o", tmp_path / "run.html")
    assert made.returncode == 0, made.stderr
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert len(page) < 5_000_000
    assert "<script>alert" not in page and "<!--" not in page.split("<body", 1)[1]
    assert not re.search(r"""(?:src|href)\s*=\s*["']?https?:""", page)
    blocks = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S)
    assert len(blocks) == 1
    data = json.loads(blocks[0])
    assert len(data["runs"]) == 1
    if steps:
        assert "alert(1)" in json.dumps(data)


def test_a_file_that_is_no_page_of_ours_is_not_replaced(tmp_path):
    record(tmp_path / "run.db", 2)
    target = tmp_path / "notes.html"
    target.write_text("mine")
    refused = report(tmp_path / "run.db", "-o", target)
    assert refused.returncode == 2 and target.read_text() == "mine"
    assert report(tmp_path / "run.db", "-o", target, "--force").returncode == 0
    assert report(tmp_path / "run.db", "-o", target).returncode == 0  # it is ours now


def test_the_run_itself_is_never_replaced(tmp_path):
    record(tmp_path / "run.db", 2)
    before = (tmp_path / "run.db").read_bytes()
    refused = report(tmp_path / "run.db", "-o", tmp_path / "run.db", "--force")
    assert refused.returncode == 2 and "database" in refused.stderr
    assert (tmp_path / "run.db").read_bytes() == before


def test_a_run_that_is_not_there_is_an_error_that_names_it(tmp_path):
    made = report(tmp_path / "none.db", "-o", tmp_path / "run.html")
    assert made.returncode == 2 and "none.db" in made.stderr
    assert not (tmp_path / "run.html").exists()
