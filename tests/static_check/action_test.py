"""The GitHub Action and the pre-commit hook, run as their hosts run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import textwrap
from pathlib import Path

from outputs_test import BAD, PROGRAM, ROOT


def run_action(folder: Path, path: str, options: str = "", **variables: str):
    """Its step "Check" as a runner starts it."""
    step = (ROOT / "action.yml").read_text().split("- name: Check\n")[1]
    head, script = step.split("run: |\n")
    (folder / "temp").mkdir(exist_ok=True)
    environment = {
        "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(folder / "temp"),
        "GITHUB_OUTPUT": str(folder / "temp" / "output"),
        "CHECKED": path,
        "OPTIONS": options,
        **variables,
    }
    given = re.findall(r"(\w+): \$\{\{ inputs", head)
    assert given == ["CHECKED", "OPTIONS"]
    words = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", textwrap.dedent(script)]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_action_annotates_and_leaves_a_sarif_file(tmp_path):
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a folder" / "bad.py").write_text(BAD)
    (tmp_path / "good.py").write_text("import torch\n")
    done = run_action(tmp_path, "a folder\ngood.py\n")
    assert done.returncode == 1, done.stderr
    assert "::error file=a folder/bad.py,line=5" in done.stdout
    [line] = (tmp_path / "temp" / "output").read_text().splitlines()
    sarif = json.loads(Path(line.removeprefix("sarif=")).read_text())
    assert [each["ruleId"] for each in sarif["runs"][0]["results"]] == ["clip-before-unscale"]


def test_the_action_takes_options_and_is_quiet_about_good_code(tmp_path):
    (tmp_path / "bad.py").write_text(BAD)
    done = run_action(tmp_path, ".", "--ignore clip-before-unscale\n  --fail-on error")
    assert (done.returncode, done.stderr) == (0, "")
    assert "::error" not in done.stdout
    wrong = run_action(tmp_path, "no-such-folder")
    assert wrong.returncode == 2, wrong.stdout
    missing = run_action(tmp_path, ".", PATH="/usr/bin:/bin")
    assert missing.returncode == 2
    assert "::error::mpnanny is not on the PATH" in missing.stdout


def test_the_hook_leaves_out_what_the_project_excludes(tmp_path):
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text()
    assert "language: system" in hook
    program, *words = re.search(r"entry: (.*)", hook)[1].split()
    assert program == "mpnanny"
    (tmp_path / "pyproject.toml").write_text("[tool.mpnanny]\nexclude = ['old/']\n")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "bad.py").write_text(BAD)
    (tmp_path / "new.py").write_text("import torch\n")

    def ends(*files: str) -> int:
        done = subprocess.run([PROGRAM, *words, *files], cwd=tmp_path, capture_output=True)
        return done.returncode

    assert ends("new.py", "old/bad.py") == 0
    assert ends("old/bad.py") == 0
    (tmp_path / "new.py").write_text(BAD)
    assert ends("new.py", "old/bad.py") == 1
