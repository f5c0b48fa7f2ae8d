"""`mpnanny diagnose RUN --watch`: follows a training that goes on in another process."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator

import pytest
from conftest import PACKAGE, forked

PROGRAM = PACKAGE.parent / "bin" / "mpnanny"

if not PROGRAM.exists():
    pytest.skip(f"{PROGRAM} is not built", allow_module_level=True)

# Goes on by one step for each line that it reads; "break" makes the loss of the next one NaN.
TRAINING = """
import sys
import torch
from conftest import Mlp, batch, cross_entropy
from mpnanny import watch_model
model = Mlp()
nanny = watch_model(model, db=sys.argv[1], quiet=True, trace_interval=1)
descent = torch.optim.SGD(model.parameters(), lr=1e-3)
for line in sys.stdin:
    x, y = batch()
    loss = cross_entropy(model(x), y)
    if line == "break\\n":
        loss = loss * torch.log(loss - loss - 1)
    descent.zero_grad()
    loss.backward()
    descent.step()
    print(line, end="", flush=True)
nanny.close()
"""


@pytest.fixture
def training(db) -> Iterator[subprocess.Popen[str]]:
    process = forked(TRAINING, db, stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()


def _step(training: subprocess.Popen[str], word: str = "on", times: int = 1) -> None:
    for _ in range(times):
        training.stdin.write(f"{word}\n")
        training.stdin.flush()
        assert training.stdout.readline() == f"{word}\n"


def _follow(db: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PROGRAM, "diagnose", db, "--watch", "--interval", "0.1", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_it_tells_when_the_run_breaks_and_ends_with_it(db, training):
    _step(training, times=5)
    with _follow(db, "--format", "json") as follower:
        first = json.loads(follower.stdout.readline())
        assert first["verdict"] != "broken"
        _step(training, "break")
        second = json.loads(follower.stdout.readline())
        while second["verdict"] != "broken":  # written in parts
            second = json.loads(follower.stdout.readline())
        assert second["first_bad"]["step"] == 5
        training.stdin.close()
        rest, errors = follower.communicate(timeout=60)
        assert follower.returncode == 0 and errors == ""
        answers = [json.loads(line) for line in rest.splitlines()]
        assert all(answer["verdict"] == "broken" for answer in answers)


def test_ctrl_c_ends_it_and_in_a_pipe_there_are_answers_only(db, training):
    _step(training, times=3)
    with _follow(db) as follower:
        first = follower.stdout.readline()
        assert first.strip()
        _step(training, times=3)
        follower.send_signal(signal.SIGINT)
        rest, errors = follower.communicate(timeout=60)
        assert follower.returncode == 0 and errors == ""
        assert "\r" not in rest and "\x1b" not in rest
    plain = subprocess.run([PROGRAM, "diagnose", db], capture_output=True, text=True, check=False)
    assert plain.returncode == 0


def test_what_cannot_be_followed_is_told(db, tmp_path):
    with _follow(db) as missing:
        assert missing.wait(60) == 2 and missing.stdout.read() == ""
    (tmp_path / "log.txt").write_text("step 1 loss 2.0\n")
    done = subprocess.run(
        [PROGRAM, "diagnose", "--log-path", tmp_path / "log.txt", "--watch"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "--watch follows a run" in done.stderr
