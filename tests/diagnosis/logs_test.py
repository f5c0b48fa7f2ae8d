"""What `diagnose` says of logs whose authors had not seen it (README.md of logs_24, logs_20)."""

import csv
import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/bin/mpnanny"
SETS = ("logs_24", "logs_20")


def truths(folder: str) -> dict[str, str]:
    with open(pathlib.Path(__file__).parent / folder / "truth.tsv", encoding="utf-8") as table:
        rows = csv.DictReader(table, delimiter="\t")
        return {f"{folder}/{row['file']}": row["verdict"] for row in rows}


TRUTH = {name: verdict for folder in SETS for name, verdict in truths(folder).items()}

MISSED = {
    "logs_24/run09_homemade_bf16.log": "what shows it is a norm of the weights",
    "logs_20/run05.log": "a level that stays higher after a spike, without gradient norms",
    "logs_20/run08.log": "a resume without the optimizer's state that was got over in the end",
    "logs_20/run20.log": "made-up words stand for loss and gradient norm",
}
# Sound, and the log holds nothing that shows it: losses of single batches of a diffusion model.
NOT_EARNED = {"logs_20/run15.log", "logs_24/run18_diffusers_dreambooth.log"}
# What else the log shows, and the answer must say.
SAYS = {
    "logs_24/run01_torchtitan.log": "the gradient norm went from about",
    "logs_24/run03_hf_trainer.log": "first bad step 1130:",
    "logs_24/run05_ultralytics_results.csv": "in 80 of 120 evaluations",
    "logs_24/run15_kohya_tqdm.log": "Input type (c10::Half) and bias type (float)",
    "logs_24/run17_axolotl.log": "first bad step 342:",
    "logs_24/run21_wandb_history.jsonl": "no weight gets a gradient",
    "logs_20/run01.log": "first bad step 1390:",
    "logs_20/run06.log": "the gradient norm went from about 0.35",
    "logs_20/run11.csv": "in 158 of 300 evaluations",
    "logs_20/run12.json": "first bad step 12678:",
    "logs_20/run14.csv": "From step 2650 on the gradients that the optimizer gets are exactly 0",
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("logs")
    for each in SETS:
        (folder / each).mkdir()
        make = pathlib.Path(__file__).parent / each / "make.py"
        subprocess.run([sys.executable, make, folder / each], check=True, capture_output=True)
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
    if name in NOT_EARNED:
        assert answer["verdict"] == "not_established", answer["headline"]
        return
    assert (answer["verdict"] == "healthy") == (TRUTH[name] == "healthy"), answer["headline"]
    assert SAYS.get(name, "") in answer["headline"]


def test_that_the_system_killed_it_is_said(logs: pathlib.Path) -> None:
    headline = answer_of(logs / "logs_20/run07.log")["headline"]
    assert "ended after step 1870 with SIGKILL" in headline
