"""`mpnanny run --ship`: a real training, watched and shipped, whose end is its own whatever becomes
of the server.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from conftest import PROGRAM, Team, ran
from recording import differences

torch = pytest.importorskip("torch")

TRAIN = """
import os, sys, time
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print("pid", os.getpid(), flush=True)
for step in range(int(sys.argv[1])):
    x = torch.randn(4, 8)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(float(sys.argv[2]))
print(repr(loss.item()))
sys.exit(int(sys.argv[3]))
"""


def start(folder: pathlib.Path, *options: object, steps=60, pause=0.01, code=0) -> subprocess.Popen:
    script = folder / "train.py"
    script.write_text(TRAIN)
    words = [PROGRAM, "run", *options, "--", sys.executable, script, steps, pause, code]
    return subprocess.Popen(
        list(map(str, words)),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )


def database(folder: pathlib.Path) -> pathlib.Path:
    return folder / "nanny_logs/metrics.db"


def test_a_training_is_shipped_while_it_runs(team: Team, tmp_path: pathlib.Path) -> None:
    running = start(tmp_path, "--ship", team.url(), steps=300, code=7)
    limit = time.monotonic() + 60
    while team.number("SELECT count(*) FROM mpnanny.step") == 0:
        assert running.poll() is None and time.monotonic() < limit
        time.sleep(0.1)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 7, err
    assert f"host={team.server.folder}#1" in err and "all is there" in err
    assert not differences(team.server, database(tmp_path), 1, database=team.database)
    # The same bits as without.
    alone = start(tmp_path, "--db", "other.db", steps=300)
    assert alone.communicate(timeout=120)[0].splitlines()[-1] == out.splitlines()[-1]


@pytest.mark.slow
def test_a_run_that_was_there_before_is_not_shipped(team: Team, tmp_path: pathlib.Path) -> None:
    start(tmp_path, steps=5).communicate(timeout=60)
    time.sleep(2)
    running = start(tmp_path, "--ship", team.url(), steps=5)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert team.sql("SELECT run_id FROM mpnanny.part") == [["2"]]


def test_a_server_that_is_away_fails_no_training(own_team: Team, tmp_path: pathlib.Path) -> None:
    own_team.server.stop()
    running = start(tmp_path, "--ship", own_team.url(), steps=20)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert "cannot be reached" in err and "ships the rest: mpnanny ship" in err
    own_team.server.start()
    own_team.ship(database(tmp_path))
    assert not differences(own_team.server, database(tmp_path), 1, database=own_team.database)


def test_a_user_who_may_not_write_fails_no_training(team: Team, tmp_path: pathlib.Path) -> None:
    running = start(tmp_path, "--ship", team.url("nobody_there"), steps=5)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 0 and "no such user" in err


@pytest.mark.parametrize(
    "sent",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_signals_are_the_trainings(team: Team, tmp_path: pathlib.Path, sent: int) -> None:
    running = start(tmp_path, "--ship", team.url(), steps=100000)
    assert running.stdout is not None
    pid = int(running.stdout.readline().split()[1])
    limit = time.monotonic() + 60
    while team.number("SELECT count(*) FROM mpnanny.step") == 0:
        assert time.monotonic() < limit
        time.sleep(0.1)
    os.kill(running.pid, sent)
    running.communicate(timeout=60)
    assert running.returncode == -sent
    limit = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_command_that_cannot_be_started(team: Team, tmp_path: pathlib.Path) -> None:
    words = [PROGRAM, "run", "--ship", team.url(), "--", "no-such-program"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Is it in PATH?" in done.stderr


def test_a_killed_trainings_last_steps_come_from_its_recorder(
    team: Team, tmp_path: pathlib.Path
) -> None:
    running = start(tmp_path, steps=100000, pause=0.002)
    assert running.stdout is not None
    running.stdout.readline()
    path = database(tmp_path)
    limit = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < limit
        time.sleep(0.1)
    time.sleep(2)
    running.kill()
    running.communicate(timeout=60)
    team.ship(path)
    told = ran("summary", "--db", path, "--format", "json")
    steps = json.loads(told)["steps"]
    assert team.number("SELECT count(*) FROM mpnanny.step") == steps
    assert team.sql("SELECT detail::json->>'status' FROM mpnanny.event WHERE type='packed'") == [
        ["killed"]
    ]
    team.ship(path)
    assert team.number("SELECT count(*) FROM mpnanny.step") == steps
