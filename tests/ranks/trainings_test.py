"""Trainings of several ranks on gloo, watched: what diagnose_run says of each, and that their bits
are those of the same training without a monitor.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from conftest import PROGRAM

torch = pytest.importorskip("torch")
pytest.importorskip("mpnanny")

PROGRAMS = pathlib.Path(__file__).with_name("trainings.py")

# What the first cause says, where it began, and words of its evidence; None: healthy.
SAID: dict[str, tuple[str, int, list[str]] | None] = {
    "ddp": None,
    "ddp_clipped": None,
    "by_hand": None,
    "accumulated": None,
    "summed_over_tokens": None,
    "compressed": None,
    "zero_redundancy": None,
    "count": None,
    "local_expert": None,
    "fsdp": None,
    "tensor_parallel": None,
    "dropout_of_all": None,
    "tied": None,
    "ddp_reduced_twice": ("reduced twice", 0, ["all_reduce", "2 times"]),
    "one_not_reduced": ("head.bias is not reduced", 0, []),
    "no_sync_left_on": ("is not reduced over the ranks", 5, ["from step 5 on"]),
    "not_broadcast": ("did not begin the same", 0, ["head.weight"]),
    "rate_of_one_rank": ("in different ways", 1, ["rank 1", "gradients were the same"]),
    "fsdp_norm_of_shards": ("by a norm of its own", 0, []),
    "fsdp_norm_counted_twice": ("not that of all ranks", 0, ["counted once for each"]),
    "count_in_place": ("count is summed", 1, ["all_reduce"]),
    "dropout_of_each_rank": ("derive different gradients", 0, ["embed.weight"]),
    "tied_reduced_once": ("is not reduced over the ranks", 0, ["Rank 1"]),
    "nan_through_forward": ("rank 1", 6, ["all_gather"]),
}


def run(folder: str, names: list[str], ranks: int = 2) -> list[str]:
    """The lines that tell the bits."""
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={ranks}"]
    done = subprocess.run(
        [*command, str(PROGRAMS), folder, *names],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return sorted(line for line in done.stdout.splitlines() if line.split(" ")[0] in names)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, list[str]]:
    """All of them, one after the other in one pair of processes."""
    folder = tmp_path_factory.mktemp("trainings")
    return folder, run(str(folder), list(SAID))


def diagnosis(folder: pathlib.Path) -> dict[str, Any]:
    arguments = json.dumps({"run": str(folder), "detail": "full"})
    done = subprocess.run(
        [PROGRAM, "call", "diagnose_run", "--root", folder.parent, "--args", arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("name", SAID)
def test_diagnosis(recorded: tuple[pathlib.Path, list[str]], name: str) -> None:
    answer = diagnosis(recorded[0] / name)
    said = SAID[name]
    if said is None:
        assert answer["verdict"] == "healthy", answer["hypotheses"]
        return
    title, step, words = said
    first = answer["hypotheses"][0]
    assert title in first["title"]
    assert answer["first_bad"]["step"] == step
    for word in words:
        assert word in " ".join(first["evidence"])


def test_bits_are_those_without_a_monitor(recorded: tuple[pathlib.Path, list[str]]) -> None:
    names = [
        "ddp_clipped",
        "accumulated",
        "compressed",
        "fsdp",
        "tensor_parallel",
        "dropout_of_all",
    ]
    without = run("-", names)
    assert len(without) == 2 * len(names)
    assert without == [line for line in recorded[1] if line.split(" ")[0] in names]


def test_four_ranks(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--slow", default=False):
        pytest.skip("takes long: --slow")
    run(str(tmp_path), ["hybrid"], ranks=4)
    assert diagnosis(tmp_path / "hybrid")["verdict"] == "healthy"


def test_a_rank_that_ended_early_is_said(recorded: tuple[pathlib.Path, list[str]]) -> None:
    import shutil
    import sqlite3

    folder = recorded[0] / "cut"
    shutil.copytree(recorded[0] / "ddp", folder)
    with sqlite3.connect(folder / "metrics.rank1.db") as database:
        database.execute("DELETE FROM step WHERE step > 4")
    for ring in folder.glob("*rank1*ring*"):
        ring.unlink()
    said = " ".join(diagnosis(folder)["limits"])
    assert "Rank 1 has no step after 4, and others reach step 11" in said


@pytest.mark.parametrize("redact", [False, True])
def test_a_packed_run_tells_the_same(
    recorded: tuple[pathlib.Path, list[str]], tmp_path: pathlib.Path, redact: bool
) -> None:
    packed = tmp_path / "run.db"
    command = [PROGRAM, "pack", recorded[0] / "tied_reduced_once", "-o", packed]
    subprocess.run([*command, *(["--redact"] if redact else [])], check=True, capture_output=True)
    answer = diagnosis(packed)
    assert "is not reduced over the ranks" in answer["hypotheses"][0]["title"]
    assert ("head.weight" in str(answer)) != redact


def test_figures_of_a_device_are_those_of_the_core() -> None:
    from mpnanny.ranks import figures

    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        tensor = torch.randn(3, 1000, generator=torch.Generator().manual_seed(1)).to(dtype)
        tensor[1, 5] = float("nan")
        for view in (tensor, tensor.t(), tensor[:, ::2]):
            core = figures.figures_of(view, 77).value()
            numbers = figures.on_device(view, 77)
            squares, a, b = numbers[3:].view(torch.float64).tolist()
            assert core is not None
            assert tuple(numbers[:3].tolist()) == core[:3]
            assert (squares, a, b) == pytest.approx(core[3:], rel=1e-9)


def test_ranges() -> None:
    from mpnanny.ranks.holders import ranges

    assert ranges([3, 0, 1, 2, 8]) == "0-3,8"
    assert ranges([]) == ""
