"""docs/gpu.md: every goal has its figure or says that there is none, and of which commit it is."""

from __future__ import annotations

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """
import json, sys
sys.path.insert(0, "bench/gpu")
import page
page.commit = lambda: "aaaaaaaa"
row = {"what": "gpt", "result": "pass", "figures": "all", "short": "1.004"}
rest = {"what": page.REST, "result": "fail", "figures": "not done", "short": ""}
its = {"date": "2026-01-01", "machine": "one", "seconds": 3}
records = {
    "overhead": {**its, "commit": "aaaaaaaa", "rows": [row]},
    "shadow": {**its, "commit": "bbbbbbbb", "rows": [row, rest]},
}
text = page.page(records)
page.PAGE = page.pathlib.Path(sys.argv[1])
page.PAGE.write_text("old\\n" + page.WRITTEN + "\\n\\n## By hand\\n")
print(page.with_written(text, page.PAGE))
"""


def test_the_page_says_what_was_measured_when_and_what_never(tmp_path):
    python = [sys.executable, "-c", PROGRAM, tmp_path / "gpu.md"]
    environment = {
        "PYTHONPATH": str(HERE / "build" / "release" / "python"),
        "PATH": "/usr/bin:/bin",
    }
    page = subprocess.check_output(python, cwd=HERE, env=environment, text=True)
    lines = page.splitlines()
    goals = {line.split(" | ")[0][2:]: line for line in lines if line.startswith("| ")}
    watching = next(line for goal, line in goals.items() if goal.startswith("watching"))
    assert "| pass | gpt: 1.004 |" in watching and "older" not in watching
    shadow = next(line for goal, line in goals.items() if goal.startswith("a shadow step"))
    assert "pass, not all of it ran" in shadow and "(**older**" in shadow
    assert "| not known |  | **never** |" in goals["the same bits"]
    assert "`bits`: never measured on a device." in lines
    assert page.count("## By hand") == 1 and "old\n" not in page


def test_all_that_a_run_may_take_fills_half_an_hour():
    program = "import sys; sys.path.insert(0, 'bench/gpu'); from checks import CHECKS; "
    program += "print(sum(each.seconds for each in CHECKS.values()))"
    python = [sys.executable, "-c", program]
    environment = {
        "PYTHONPATH": str(HERE / "build" / "release" / "python"),
        "PATH": "/usr/bin:/bin",
    }
    told = subprocess.check_output(python, cwd=HERE, env=environment, text=True)
    assert 1200 < float(told.split()[-1]) <= 1790
