"""Where a run is recorded, and by whom: places that cannot be used, ranks, forked children."""

from __future__ import annotations

import gc
import os
import pathlib
import signal
import sqlite3
import stat
import sys
import types

import pytest
from conftest import Mlp, batch, cross_entropy, python
from mpnanny import MixedPrecisionNanny, watch_model
from torch import nn


def record(path: str | os.PathLike[str], steps: int = 3) -> str:
    """A short run; its handle, or "" if it could not be recorded. Never an exception."""
    nanny = watch_model(nn.Linear(2, 2), db=path, quiet=True)
    handle = nanny.run
    for step in range(steps):
        with nanny.step(step) as block:
            block.log(loss=1.0)
    nanny.close()
    return handle


def damaged(path: pathlib.Path) -> None:
    record(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])
    path.with_name(path.name + "-ring").unlink()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.mkdir(), "a folder, not a file"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.write_text("step,loss\n" * 500), "not a database"),
        (damaged, "malformed"),
        (lambda path: path.symlink_to("/proc/none/metrics.db"), "cannot be created"),
    ],
    ids=["folder", "fifo", "text", "damaged", "no-place"],
)
def test_a_place_that_cannot_be_used_is_one_clear_line(tmp_path, capfd, make, said):
    path = tmp_path / "metrics.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    capfd.readouterr()
    assert record(path) == ""
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("mpnanny: not watching: ") and said in lines[0]
    if before is not None:
        assert path.read_bytes() == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"metrics.db"}


def test_missing_folders_are_made_and_files_are_private(tmp_path):
    path = tmp_path / "a" / "b" / "metrics.db"
    nanny = watch_model(nn.Linear(2, 2), db=path, quiet=True)
    with nanny.step(0) as block:
        block.log(loss=1.0)
    names = {entry.name for entry in path.parent.iterdir()}
    assert names == {"metrics.db" + suffix for suffix in ("", "-wal", "-shm", "-ring")}
    for entry in path.parent.iterdir():
        assert stat.S_IMODE(entry.stat().st_mode) == 0o600, entry
    nanny.close()


def test_the_ring_is_beside_the_file_that_a_link_points_to(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "metrics.db").symlink_to(tmp_path / "disk" / "metrics.db")
    assert record(tmp_path / "metrics.db") == f"{tmp_path}/disk/metrics.db#1"
    assert record(tmp_path / "disk" / "metrics.db").endswith("#2")
    assert {entry.name for entry in tmp_path.iterdir()} == {"disk", "metrics.db"}
    assert (tmp_path / "disk" / "metrics.db-ring").exists()


def test_every_rank_has_a_database_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in (0, 1):
        monkeypatch.setenv("RANK", str(rank))
        path = tmp_path / f"metrics.rank{rank}.db"
        assert record(tmp_path / "metrics.db") == f"{path}#1"
        with sqlite3.connect(path) as connection:
            row = connection.execute("SELECT rank, world_size FROM run").fetchone()
        assert row == (rank, 2)


CELL = """
model = nn.Linear(2, 2)
nanny = watch_model(model, db=db, quiet=True)
others = [watch_model(nn.Linear(2, 2), db=db, quiet=True) for _ in range(2)]
"""


def test_a_notebook_cell_that_ran_again_replaces_its_nannies(db, monkeypatch):
    shell = types.SimpleNamespace(execution_count=1)
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    code = compile(CELL, "/tmp/ipykernel_1/123.py", "exec")
    spaces, stem = [], db.removesuffix(".db")
    for execution in (1, 2):
        shell.execution_count = execution
        spaces.append({"nn": nn, "watch_model": watch_model, "db": db})
        exec(code, spaces[-1])
        made = [spaces[-1]["nanny"], *spaces[-1]["others"]]
        assert made[0].run == f"{db}#{execution}"
        # Those that one execution made stay apart.
        assert [nanny.run for nanny in made[1:]] == [
            f"{stem}-{number}.db#{execution}" for number in (2, 3)
        ]
    assert [nanny.run for nanny in (spaces[0]["nanny"], *spaces[0]["others"])] == [""] * 3
    for nanny in made:
        nanny.close()


def test_a_nanny_that_nobody_has_any_more_has_ended_its_run(db, database):
    nanny = watch_model(nn.Linear(2, 2), db=db, quiet=True)
    with nanny.step(0) as block:
        block.log(loss=1.0)
    nanny._session.stop_listening()  # torch's hooks hold it, and it holds them
    del nanny, block
    gc.collect()
    assert database().one("SELECT end_reason FROM run")["end_reason"] == "closed"


def test_a_forked_child_never_touches_its_parents_file(db, database):
    model = Mlp()
    nanny = MixedPrecisionNanny(model, db=db, quiet=True, trace_interval=1)
    x, y = batch()
    for step in range(3):
        with nanny.step(step) as block:
            block.log(loss=cross_entropy(model(x), y))
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            for step in range(100, 103):
                with nanny.step(step) as block:
                    block.log(loss=cross_entropy(model(x), y))
            nanny.close()
            nanny._session.flush()
            failed = int(nanny.run != "")
        finally:
            os._exit(failed)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for step in range(3, 6):
        with nanny.step(step) as block:
            block.log(loss=cross_entropy(model(x), y))
    nanny.close()
    assert [row["step"] for row in database().rows("SELECT step FROM step")] == list(range(6))
    assert database().one("SELECT end_reason FROM run")["end_reason"] == "closed"
    assert database().one("PRAGMA integrity_check")["integrity_check"] == "ok"


def test_a_script_that_just_ends_has_all_its_steps(tmp_path):
    path = str(tmp_path / "metrics.db")
    process = python(
        """
        import sys, torch
        from mpnanny import watch_model
        nanny = watch_model(torch.nn.Linear(2, 2), db=sys.argv[1], quiet=True)
        for step in range(2000):
            with nanny.step(step) as block:
                block.log(loss=1.0)
        sys.exit(5)
        """,
        path,
    )
    _, errors = process.communicate()
    assert (process.returncode, errors) == (5, "")
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*), max(step) FROM step").fetchone() == (2000, 1999)
        assert connection.execute("SELECT end_reason FROM run").fetchone() == ("closed",)
    assert not os.path.exists(path + "-wal")


def test_a_forked_child_does_not_wait_for_a_run_that_had_stopped(db):
    """It collects what its parent had not: a recorder whose thread does not exist there."""
    gc.collect()
    gc.disable()
    try:
        nanny = watch_model(nn.Linear(2, 2), db=db, quiet=True)
        nanny._session._cannot_record("the disk is full")
        assert nanny.run == ""
        del nanny
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            gc.collect()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        gc.enable()
