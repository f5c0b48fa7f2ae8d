"""`mpnanny run -- COMMAND`: trainings that know nothing of mpnanny."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest
import torch
from conftest import PACKAGE, Database, Mlp
from mpnanny.monitor import launched
from mpnanny.process import search
from mpnanny.process.own_file import path_of_our_own
from torch import nn

PROGRAM = PACKAGE.parent / "bin" / "mpnanny"

if not PROGRAM.exists():
    pytest.skip(f"{PROGRAM} is not built", allow_module_level=True)

TRAINING = """
import os, sys
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(4, 8)
        self.leave = nn.Linear(8, 1)
    def forward(self, x):
        return self.leave(self.enter(x).relu())

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 10
    def __getitem__(self, index):
        return torch.full((4,), float(index))

if __name__ == "__main__":
    os.chdir("/")
    teacher = nn.Linear(4, 1)  # runs first, and nobody trains it
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for x in torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=1):
        loss = (model(x) - teacher(x)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("answer", *sys.argv[1:])
    print("watched" if "mpnanny" in sys.modules else "not watched", flush=True)
    sys.exit(7)
"""


def _run(folder: pathlib.Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [PROGRAM, "run", *words],
        cwd=folder,
        env={**plain, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def _script(folder: pathlib.Path, text: str, name: str = "train.py") -> str:
    (folder / name).write_text(textwrap.dedent(text))
    return name


def test_a_training_is_watched_from_its_first_step(tmp_path):
    """With a DataLoader worker, its own sitecustomize, arguments, an exit code and a chdir(), as
    one rank of two.
    """
    own = tmp_path / "own"
    own.mkdir()
    _script(own, "import os; os.environ['CHAINED'] = 'yes'", "sitecustomize.py")
    script = _script(tmp_path, TRAINING)
    words = [
        "--interval",
        "2",
        "--quiet",
        "--arguments",
        "--",
        sys.executable,
        script,
        "--lr",
        "-1",
    ]
    done = _run(tmp_path, *words, PYTHONPATH=str(own), RANK="1", WORLD_SIZE="2")
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout == "answer --lr -1\nwatched\n"
    database = Database(tmp_path / "nanny_logs" / "metrics.rank1.db")
    run = database.one("SELECT * FROM run")
    assert (run["name"], run["trace_interval"], run["end_reason"]) == (
        f"{tmp_path.name}/train",
        2,
        "closed",
    )
    assert json.loads(run["environment"])["arguments"] == ["--lr", "-1"]
    assert [row["step"] for row in database.rows("SELECT step FROM step")] == [0, 1, 2, 3, 4]
    layers = {row["name"] for row in database.rows("SELECT name FROM layer")}
    assert {"(model)", "enter", "leave", "enter.weight"} <= layers
    seen = database.rows("SELECT * FROM tensor_stats WHERE step = 0 AND kind = 1")
    assert len(seen) >= 2  # activations of the very first step


def test_programs_that_do_not_train_are_left_alone(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    _script(own, "import builtins; builtins.chained = True", "sitecustomize.py")
    script = _script(
        tmp_path,
        """
        import os, signal, sys
        import sitecustomize
        assert chained and "_launch" not in sitecustomize.__file__, sitecustomize.__file__
        assert not any(path.endswith("_launch") for path in sys.path), sys.path
        assert "torch" not in sys.modules and "mpnanny" not in sys.modules
        os.kill(os.getpid(), signal.SIGTERM)
        """,
    )
    done = _run(tmp_path, "--", sys.executable, script, PYTHONPATH=str(own))
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "", "")
    assert not (tmp_path / "nanny_logs").exists()


@pytest.mark.slow
def test_every_rank_of_torchrun_has_its_file(tmp_path):
    script = _script(
        tmp_path,
        """
        import torch, torch.distributed as dist
        from torch import nn
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for step in range(3):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        dist.destroy_process_group()
        """,
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = _run(tmp_path, "--db", "m.db", "--", *torchrun, "--nproc-per-node", "2", script)
    assert done.returncode == 0, done.stderr
    assert sorted(file.name for file in tmp_path.glob("m*.db")) == ["m.rank0.db", "m.rank1.db"]
    for rank in (0, 1):
        database = Database(tmp_path / f"m.rank{rank}.db")
        run = database.one("SELECT * FROM run")
        assert (run["rank"], run["world_size"]) == (rank, 2)
        assert len(database.rows("SELECT * FROM step")) == 3
        assert {"0", "1"} <= {row["name"] for row in database.rows("SELECT name FROM layer")}


@pytest.mark.slow
def test_a_compiled_model_gets_no_warning_of_ours(tmp_path):
    script = _script(
        tmp_path,
        """
        import torch
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        compiled = torch.compile(model, backend="eager")
        for _ in range(2):
            compiled(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        """,
    )
    done = _run(tmp_path, "--db", "m.db", "--", sys.executable, "-W", "default", script)
    assert done.returncode == 0, done.stderr
    assert "global hooks" not in done.stderr
    assert "2 steps in" in done.stderr
    layers = {row["name"] for row in Database(tmp_path / "m.db").rows("SELECT name FROM layer")}
    assert "(model)" in layers and "weight" in layers  # not _orig_mod.weight


def test_what_cannot_run_is_told(tmp_path):
    missing = _run(tmp_path, "--", "./nothing-here")
    assert missing.returncode == 2 and "nothing-here: No such file" in missing.stderr
    empty = _run(tmp_path)
    assert empty.returncode == 2 and "mpnanny run -- python train.py" in empty.stderr
    nowhere = _run(tmp_path, "--package", "/nonexistent", "--", "true")
    assert nowhere.returncode == 2 and "--package" in nowhere.stderr


def test_the_whole_model_is_found_from_a_part():
    whole = nn.ModuleDict({"body": Mlp(), "head": nn.Linear(3, 2)})
    assert search.whole_model(whole["body"].enter) is whole
    assert search.owner({id(whole["head"].weight)}) is whole["head"]
    assert search.owner({id(p) for p in whole.parameters()}) is whole
    assert search.owner({0}) is None


def test_a_file_that_another_process_records_into_is_left_to_it(tmp_path):
    db = str(tmp_path / "metrics.db")
    assert path_of_our_own(db) == db
    (tmp_path / "metrics.db-ring").write_bytes(b"x")
    assert path_of_our_own(db) == db
    hold = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX);"
        " print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, db + "-ring"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        holder.stdout.readline()
        assert path_of_our_own(db) == str(tmp_path / f"metrics-{os.getpid()}.db")
        holder.stdin.write(b"\n")


def test_a_model_in_evaluation_mode_is_found_when_its_optimizer_steps(monkeypatch, tmp_path):
    monkeypatch.setenv("MPNANNY_RUN", f'{{"db": "{tmp_path}/m.db", "quiet": true}}')
    monkeypatch.setattr(launched, "_decided", False)
    model = Mlp().eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    launched.optimizer_made(optimizer)
    for _ in range(3):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert not launched._handles
    (nanny,) = launched.live_runs()
    nanny.close()
    assert Database(tmp_path / "m.db").rows("SELECT * FROM step")


def test_a_closure_is_of_the_whole_model_also_where_its_head_is_in_no_optimizer(
    monkeypatch, tmp_path, capfd
):
    """As Lightning steps: the model's forward pass begins inside of optimizer.step()."""
    monkeypatch.setenv("MPNANNY_RUN", f'{{"db": "{tmp_path}/m.db"}}')
    monkeypatch.setattr(launched, "_decided", False)
    model = nn.ModuleDict({"body": Mlp(), "head": nn.Linear(3, 2)})
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    model["head"] = nn.Linear(3, 2)
    launched.optimizer_made(optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model["head"](model["body"](torch.ones(2, 8))).sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    (nanny,) = launched.live_runs()
    nanny.close()
    rows = Database(tmp_path / "m.db").rows("SELECT name FROM layer")
    assert any(row["name"].endswith("head.weight") for row in rows)
    assert "mpnanny: watching ModuleDict: " in capfd.readouterr().err


COPIES = """
import copy
import torch
from torch import nn

server = nn.Linear(4, 1)
for _ in range(20):
    model = copy.deepcopy(server)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print("done")
"""


def test_a_program_that_trains_a_copy_in_every_round_is_not_recorded_without_end(tmp_path):
    (tmp_path / "train.py").write_text(COPIES)
    ran = _run(tmp_path, "--shadow", "off", "--", sys.executable, str(tmp_path / "train.py"))
    assert ran.returncode == 0 and "done" in ran.stdout
    assert f"{launched.MOST_MODELS} are recorded" in ran.stderr
    assert len(list((tmp_path / "nanny_logs").glob("*.db"))) == launched.MOST_MODELS


RISING = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(80):
    x = torch.randn(16, 8)
    # The target runs away, slowly enough that no step is a spike.
    loss = (model(x) - 1.05**step).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_the_end_tells_the_verdict_that_every_command_tells(tmp_path):
    """Without an alert as well."""
    script = _script(tmp_path, RISING)
    done = _run(tmp_path, "--shadow", "off", "--", sys.executable, script)
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("mpnanny: ") for line in done.stderr.splitlines()]
    assert "alerts: none" in lines, done.stderr

    def ask(*words: str) -> str:
        asked = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=True)
        return asked.stdout

    run = str(tmp_path / "nanny_logs" / "metrics.db")
    diagnosis = ask("diagnose", run).splitlines()[0]
    assert diagnosis.startswith("BROKEN: "), diagnosis
    assert lines[-2:] == [diagnosis, f"Next: mpnanny diagnose {run}#1"]
    summary = ask("summary", "--db", run).splitlines()
    assert summary[0].endswith("closed, BROKEN."), summary[0]
    assert diagnosis.startswith(f"BROKEN: {summary[1].removeprefix('- ')}")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("every=0", "every=0 is not"),
        ("sometimes", "sometimes is not"),
        ("every=5 steps=1-2", "only one of"),
        ("steps=5-4", "steps=5-4 is not"),
        ("auto layers=,", "names no layer"),
    ],
)
def test_a_wrong_shadow_word_stops_the_command_before_it_runs(tmp_path, words, why):
    done = _run(tmp_path, "--shadow", words, "--", sys.executable, "-c", "print('ran')")
    assert done.returncode != 0 and "ran" not in done.stdout
    assert why in done.stderr


def test_shadow_words_stand_beside_each_other(tmp_path):
    words = "every=3 layers=enter,leave eager"
    done = _run(tmp_path, "--shadow", words, "--", sys.executable, "-c", "print('ran')")
    assert (done.returncode, done.stdout) == (0, "ran\n")
