"""What `diagnose` says of 24 logs whose author had not seen it (logs_24/README.md)."""

import csv
import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/bin/mpnanny"
HERE = pathlib.Path(__file__).parent / "logs_24"

with open(HERE / "truth.tsv", encoding="utf-8") as table:
    TRUTH = {row["file"]: row["verdict"] for row in csv.DictReader(table, delimiter="\t")}

MISSED = {
    "run09_homemade_bf16.log": "that weights no longer change shows in a norm that is not read",
    "run14_tensorboard_export.csv": "a table of tags in long form is not read",
}
# What else the log shows, and the answer must say.
SAYS = {
    "run01_torchtitan.log": "the gradient norm went from about",
    "run03_hf_trainer.log": "first bad step 1130:",
    "run05_ultralytics_results.csv": "in 80 of 120 evaluations",
    "run15_kohya_tqdm.log": "Input type (c10::Half) and bias type (float)",
    "run17_axolotl.log": "first bad step 342:",
    "run21_wandb_history.jsonl": "no weight gets a gradient",
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("logs")
    subprocess.run([sys.executable, HERE / "make.py", folder], check=True, capture_output=True)
    assert (folder / "truth.tsv").read_bytes() == (HERE / "truth.tsv").read_bytes()
    return folder


def answer_of(log: pathlib.Path) -> dict[str, Any]:
    done = subprocess.run(
        [PROGRAM, "diagnose", log, "--format", "json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=MISSED[name], strict=True))
        if name in MISSED
        else name
        for name in TRUTH
    ],
)
def test_the_verdict_is_the_logs(name: str, logs: pathlib.Path) -> None:
    answer = answer_of(logs / name)
    assert (answer["verdict"] == "healthy") == (TRUTH[name] == "healthy"), answer["headline"]
    assert SAYS.get(name, "") in answer["headline"]
