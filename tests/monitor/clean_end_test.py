"""Runs that end properly although something is in the way: they are not called killed, and what
could not be written is said, and read from the ring.
"""

from __future__ import annotations

import json
import pathlib
import resource
import shutil
import sqlite3
import subprocess
import threading
from typing import Any

import pytest
import torch
from conftest import PACKAGE, Mlp, batch, cross_entropy, python
from mpnanny import MixedPrecisionNanny, watch_model

PROGRAM = PACKAGE.parent / "bin/mpnanny"


def train(nanny: MixedPrecisionNanny, model: torch.nn.Module, steps: int, first: int = 0) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(first, first + steps):
        x, y = batch()
        with nanny.step(step):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()


def summary(db: pathlib.Path) -> dict[str, Any]:
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    words = [PROGRAM, "summary", "--db", str(db), "--format", "json"]
    told: dict[str, Any] = json.loads(
        subprocess.run(words, capture_output=True, check=False).stdout
    )
    return told


def test_a_lock_that_is_held_over_the_end_is_waited_for(tmp_path, capfd):
    db = tmp_path / "metrics.db"
    model = Mlp()
    nanny = MixedPrecisionNanny(model, db=str(db), trace_interval=1)
    train(nanny, model, 30)
    other = sqlite3.connect(db, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    train(nanny, model, 30, first=30)
    # Longer than one attempt to write waits.
    timer = threading.Timer(3.5, other.execute, ["ROLLBACK"])
    timer.start()
    nanny.close()
    timer.join()
    other.close()
    assert "could not be written" not in capfd.readouterr().err
    told = summary(db)
    assert (told["status"], told["steps"]) == ("closed", 60)
    with sqlite3.connect(db) as file:
        assert file.execute("SELECT count(*), max(step) FROM step").fetchone() == (60, 59)


def test_a_run_on_a_full_disk_ended_and_its_last_steps_are_in_the_ring(tmp_path):
    """RLIMIT_FSIZE stands in for the full disk; full_disk_test.py has real ones."""
    db = tmp_path / "metrics.db"
    process = python(
        """
        import signal, sys, torch
        from mpnanny import MixedPrecisionNanny
        from clean_end_test import train
        from conftest import Mlp
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        model = Mlp()
        nanny = MixedPrecisionNanny(model, db=sys.argv[1], trace_interval=1)
        train(nanny, model, 3000)
        nanny.close()
        """,
        str(db),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000)),
    )
    _, said = process.communicate(timeout=100)
    assert process.returncode == 0, said
    assert "training goes on" in said and "The database lacks" in said, said
    assert "metrics.db-ring" in said and "mpnanny diagnose" not in said, said
    told = summary(db)
    assert told["status"] == "closed", told
    assert any("ended properly" in note for note in told["notes"]), told["notes"]
    with sqlite3.connect(db) as file:
        written = file.execute("SELECT count(*) FROM step").fetchone()[0]
    assert told["steps"] > written, "the ring holds what was not written"
    # The next run in the file brings it in, with its end.
    model = Mlp()
    watch_model(model, db=str(db), quiet=True).close()
    with sqlite3.connect(db) as file:
        first = "SELECT count(*) FROM step WHERE run_id = 1"
        assert file.execute(first).fetchone()[0] == told["steps"]
        reasons = file.execute("SELECT end_reason FROM run ORDER BY run_id").fetchall()
    assert reasons == [("closed",), ("closed",)]


def test_a_deleted_folder_is_a_warning_and_no_run_to_be_asked_about(tmp_path, capfd):
    folder = tmp_path / "gone"
    model = Mlp()
    nanny = MixedPrecisionNanny(model, db=str(folder / "metrics.db"), trace_interval=1)
    train(nanny, model, 20)
    shutil.rmtree(folder)
    train(nanny, model, 5)
    nanny.close()
    said = capfd.readouterr().err
    assert "no longer there" in said and "deleted" in said, said
    assert "Next: mpnanny" not in said, said
    assert not folder.exists()


CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static int days;
void set_back(int by) { days = by; }
int clock_gettime(clockid_t which, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int code = real(which, now);
  if (which == CLOCK_REALTIME) now->tv_sec -= 86400l * days;
  return code;
}
"""


@pytest.mark.slow  # it waits for half a minute
def test_a_clock_that_is_set_back_does_not_stop_the_thinning(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler here")
    clock = tmp_path / "clock.so"
    (tmp_path / "clock.c").write_text(CLOCK)
    words = [compiler, "-shared", "-fPIC", "-o", clock, tmp_path / "clock.c", "-ldl"]
    subprocess.run(words, check=True)
    db = tmp_path / "metrics.db"
    process = python(
        """
        import ctypes, sqlite3, sys, time, torch
        from mpnanny import MixedPrecisionNanny
        from clean_end_test import train
        model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(16)])
        # A limit that the first samples reach: there is nothing to thin yet, so thinning rests.
        nanny = MixedPrecisionNanny(model, db=sys.argv[1], trace_interval=1, max_db_mb=1)
        before = time.time()
        train(nanny, model, 150)
        time.sleep(1)
        ctypes.CDLL(sys.argv[2]).set_back(1)
        assert time.time() < before
        train(nanny, model, 300)  # now there is
        time.sleep(22)  # it rests for ten seconds, and looks at the file every ten
        nanny.close()
        with sqlite3.connect(sys.argv[1]) as file:
            print(file.execute("SELECT count(*) FROM event WHERE type = 'thinned'").fetchone()[0])
        """,
        str(db),
        str(clock),
        launcher=["env", f"LD_PRELOAD={clock}"],
    )
    out, said = process.communicate(timeout=100)
    assert process.returncode == 0, said
    assert int(out) > 0, "nothing was thinned once the clock was set back"
