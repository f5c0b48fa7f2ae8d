"""What the core must withstand: a system without resources, processes that die or share a file."""

from __future__ import annotations

import signal
import sys

import pytest
from conftest import python

LIMIT = """
    import resource
    def leave(megabytes):
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * 4096 + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
"""
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="limits as Linux enforces them")


@linux_only
def test_a_thread_that_cannot_start_does_not_end_the_training(db, database):
    process = python(
        LIMIT
        + """
    import sys, torch
    from torch import nn
    from mpnanny import watch_model
    model = nn.Linear(4, 1)
    model(torch.ones(2, 4)).sum().backward()
    leave(6)  # a thread's stack takes 8
    nanny = watch_model(model, db=sys.argv[1])
    print("trains on", model(torch.ones(2, 4)).shape[0], nanny.run == "")
    """,
        db,
    )
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert out.strip().endswith("trains on 2 True")
    assert "not watching" in errors and "thread" in errors
    assert database().one("SELECT end_reason FROM run")["end_reason"] == "exception"


@linux_only
def test_no_cpp_exception_reaches_the_interpreter(db):
    process = python(
        LIMIT
        + """
    import sys
    from mpnanny._core import Recorder
    recorder = Recorder(sys.argv[1], "n", 0, 1, 1.0, "auto", 100, "{}", 50)
    name = "x" * (256 << 20)
    leave(100)
    try:
        recorder.add_layer(name, None, None, 1, True)
    except MemoryError:
        print("no memory")
    del name
    try:
        recorder.begin_step(0)
        recorder.observe(7, (), ())
    except RuntimeError as error:
        print("no layer")
    print(repr(recorder.close("closed")))
    """,
        db,
    )
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert out.splitlines() == ["no memory", "no layer", "''"]


TRAINING = """
    import os, signal, sys, torch
    from torch import nn
    from mpnanny import watch_model
    torch.set_num_threads(1)
    model = eval(sys.argv[2])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    nanny = watch_model(model, db=sys.argv[1], quiet=True, trace_interval=1)
    for _ in range(3):
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
    if len(sys.argv) > 3:
        os.kill(os.getpid(), signal.SIGKILL)
    nanny.close()
"""


def test_a_run_killed_at_once_keeps_its_own_layers(db, database):
    killed = python(TRAINING, db, "nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))", "!")
    assert killed.wait(timeout=120) == -signal.SIGKILL
    after = python(TRAINING, db, "nn.Sequential(nn.Tanh(), nn.Linear(4, 1), nn.Sigmoid())")
    assert after.wait(timeout=120) == 0, after.stderr.read()
    names = {
        run: {
            row["name"]: row["type"]
            for row in database().rows("SELECT name, type FROM layer WHERE run_id = ?", run)
        }
        for run in (1, 2)
    }
    assert names[1]["1"] == "ReLU" and names[2]["1"] == "Linear"
    foreign = "SELECT count(*) AS n FROM tensor_stats t LEFT JOIN layer l USING (layer_id)"
    assert database().one(foreign + " WHERE l.run_id IS NOT t.run_id")["n"] == 0
    assert database().one(foreign + " WHERE t.run_id = 1 AND l.name = '1'")["n"] > 0
