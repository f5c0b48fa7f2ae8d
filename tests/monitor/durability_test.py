"""How runs end: killed, stopped by a signal, by an exception, on a full disk; and what starts after
them.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import random
import resource
import signal
import sqlite3
import stat
import struct
import time
import zlib

import pytest
import torch
from conftest import Mlp, batch, cross_entropy, python
from mpnanny import MixedPrecisionNanny, watch_model
from mpnanny.monitor import nanny as _nanny
from torch import nn

TRAINING = """
    import sys, torch
    from conftest import Mlp, batch, cross_entropy
    from mpnanny import MixedPrecisionNanny
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    nanny = MixedPrecisionNanny(model, db=sys.argv[1], quiet=True, trace_interval=20, name="t")
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    last = int(sys.argv[3]) if len(sys.argv) > 3 else 10**9
    for step in range(first, last):
        x, y = batch()
        with nanny.step(step) as record:
            loss = cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.log(loss=loss)
        print(step, flush=True)
"""

HEADER = struct.Struct("<8sIIIIIIqdqB63x")
STEP = struct.Struct("<QqddddddqIIiiII")
SAMPLE = struct.Struct("<QqqiiiI16qII")  # its figures as integers: nobody reads them here


def ring_steps(database: str) -> tuple[int, bool, dict[int, tuple]]:
    """The ring read from its format (base/flight_ring.h) alone: run, closed, {step: slot}."""
    data = pathlib.Path(database + "-ring").read_bytes()
    head = HEADER.unpack_from(data)
    magic, version, header_bytes, step_slots, step_bytes = head[:5]
    assert magic == b"MPNYRING" and version == 1
    assert header_bytes == HEADER.size == 120 and step_bytes == STEP.size == 96
    steps = {}
    for index in range(step_slots):
        raw = data[header_bytes + index * step_bytes :][:step_bytes]
        slot = STEP.unpack(raw)
        if slot[0] != 0 and zlib.crc32(raw[8:88]) == slot[13]:
            steps[slot[1]] = slot
    return head[7], bool(head[10]), steps


def ring_samples(database: str) -> set[tuple[int, int, int, int]]:
    """(step, layer, kind, slot) of the samples in the ring."""
    data = pathlib.Path(database + "-ring").read_bytes()
    (_, _, header_bytes, step_slots, step_bytes, slots, size, *_) = HEADER.unpack_from(data)
    assert size == SAMPLE.size == 176
    at = header_bytes + step_slots * step_bytes
    samples = set()
    for index in range(slots):
        raw = data[at + index * size :][:size]
        slot = SAMPLE.unpack(raw)
        if slot[0] != 0 and zlib.crc32(raw[8:168]) == slot[-2]:
            samples.add((slot[1], slot[2], slot[3], slot[4]))
    return samples


def kill_after(database: str, steps: int, number: int) -> int:
    """Runs TRAINING, sends the signal after so many steps; the last step that it told of."""
    process = python(TRAINING, database)
    last = -1
    for line in process.stdout:
        last = int(line)
        if last >= steps:
            break
    time.sleep(random.random() * 0.05)
    process.send_signal(number)
    rest = process.stdout.read().split("\n")
    process.wait(30)
    process.stderr.close()
    return max([last, *(int(line) for line in rest[:-1] if line)])


def test_the_next_run_recovers_the_ring_and_links_to_its_parent(tmp_path):
    path = str(tmp_path / "metrics.db")
    last = kill_after(path, 50, signal.SIGKILL)
    process = python(TRAINING, path, str(last + 1), str(last + 4))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    connection = sqlite3.connect(path)
    steps = dict(connection.execute("SELECT step, flags FROM step WHERE run_id = 1"))
    assert set(range(last + 1)) <= set(steps)
    assert any(flags & 256 for flags in steps.values())
    recovered = connection.execute(
        "SELECT loss, duration, lr FROM step WHERE run_id = 1 AND flags & 256 LIMIT 1"
    ).fetchone()
    assert all(value is not None for value in recovered)
    runs = connection.execute("SELECT run_id, parent, end_reason FROM run ORDER BY 1").fetchall()
    assert runs == [(1, None, None), (2, 1, "closed")]
    assert ring_steps(path)[:2] == (2, True)


def test_sigterm_ends_the_run_and_the_process(tmp_path):
    path = str(tmp_path / "metrics.db")
    last = kill_after(path, 20, signal.SIGTERM)
    connection = sqlite3.connect(path)
    ((reason, ended),) = connection.execute("SELECT end_reason, ended_at FROM run").fetchall()
    assert reason == "signal" and ended is not None
    assert connection.execute("SELECT max(step) FROM step").fetchone()[0] >= last
    assert not os.path.exists(path + "-wal")


def test_sigterm_still_reaches_the_users_own_handler(tmp_path):
    path = str(tmp_path / "metrics.db")
    process = python(
        """
        import os, signal, sys, time, torch
        from mpnanny import watch_model
        def mine(number, frame):
            os.write(1, b"mine\\n")  # print() raises where the signal comes in the middle of one
            sys.exit(7)
        signal.signal(signal.SIGTERM, mine)
        nanny = watch_model(torch.nn.Linear(2, 2), db=sys.argv[1], quiet=True)
        print("ready", flush=True)
        time.sleep(60)
        """,
        path,
    )
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    out, errors = process.communicate(timeout=30)
    assert (out, process.returncode) == ("mine\n", 7), errors
    reason = sqlite3.connect(path).execute("SELECT end_reason FROM run").fetchone()[0]
    assert reason == "signal"


def test_an_exception_in_a_step_is_the_runs_end(tmp_path):
    path = str(tmp_path / "metrics.db")
    process = python(
        """
        import sys, torch
        from conftest import Mlp, batch
        from mpnanny import MixedPrecisionNanny
        model = Mlp()
        nanny = MixedPrecisionNanny(model, db=sys.argv[1])
        with nanny.step(0) as record:
            model(batch()[0])
        with nanny.step(1) as record:
            raise RuntimeError("user's own")
        """,
        path,
    )
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and "user's own" in errors and out == ""
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT end_reason FROM run").fetchone() == ("exception",)
    assert connection.execute("SELECT count(*) FROM step").fetchone() == (2,)
    assert "mpnanny: watching Mlp: 5 modules" in errors


def test_an_exception_that_is_handled_is_not_the_end(db, database):
    nanny = watch_model(nn.Linear(2, 2), db=db, quiet=True)
    with pytest.raises(ZeroDivisionError), nanny.step(0):
        raise ZeroDivisionError
    with nanny.step(1) as record:
        record.log(loss=1.0)
    nanny.close()
    assert database().one("SELECT end_reason FROM run")["end_reason"] == "closed"


class Loaded(torch.utils.data.Dataset):
    def __init__(self, nanny: MixedPrecisionNanny) -> None:
        self.nanny = nanny  # as when the dataset is a method's closure: it travels to the workers

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with self.nanny.step(index) as record:
            record.log(loss=float("nan"))
        return torch.full((8,), float(index)), index % 3


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_loader_workers_get_an_inert_copy(db, database, context):
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    nanny = watch_model(model, db=db, quiet=True)
    loader = torch.utils.data.DataLoader(
        Loaded(nanny), batch_size=8, num_workers=2, multiprocessing_context=context
    )
    for _ in range(2 if context == "fork" else 1):
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
    nanny.close()
    rows = database().rows("SELECT step, loss FROM step ORDER BY step")
    assert [row["step"] for row in rows] == list(range(12 if context == "fork" else 6))
    assert all(row["loss"] is not None for row in rows)
    assert database().one("PRAGMA integrity_check")["integrity_check"] == "ok"


def test_a_resumed_run_lies_in_the_same_file(db, database):
    for first in (0, 5):
        nanny = MixedPrecisionNanny(nn.Linear(2, 2), db=db, quiet=True, name="same")
        for step in range(first, first + 5):
            with nanny.step(step) as record:
                record.log(loss=1.0)
        nanny.close()
    runs = database().rows("SELECT run_id, parent, name FROM run ORDER BY run_id")
    assert [(run["run_id"], run["parent"]) for run in runs] == [(1, None), (2, 1)]
    layers = database().rows("SELECT run_id, count(*) AS n FROM layer GROUP BY run_id")
    assert len({layer["n"] for layer in layers}) == 1 and len(layers) == 2


def test_on_a_network_file_system_the_handle_is_the_live_file(
    db, database, tmp_path, monkeypatch, capfd
):
    monkeypatch.setattr(_nanny, "Recorder", functools.partial(_nanny.Recorder, network=True))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    nanny = watch_model(nn.Linear(2, 2), db=db)
    live, _, run = nanny.run.rpartition("#")
    assert os.path.dirname(live) != os.path.dirname(db) and run == "1"
    assert stat.S_IMODE(os.stat(os.path.dirname(live)).st_mode) == 0o700
    with nanny.step(0) as record:
        record.log(loss=1.0)
    nanny.close()
    assert nanny.summary()["run"] == f"{os.path.realpath(db)}#1"
    assert not os.path.exists(live)
    assert database().one("SELECT count(*) AS n FROM step")["n"] == 1
    notes = json.loads(database().one("SELECT notes FROM run")["notes"])
    assert any(live in note and "every 30 s" in note for note in notes)
    assert live in capfd.readouterr().err


def test_two_models_at_once_have_a_file_each(db, database, tmp_path):
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    one, two = watch_model(first, db=db, quiet=True), watch_model(second, db=db, quiet=True)
    assert one.run == f"{db}#1" and two.run == f"{tmp_path}/metrics-2.db#1"
    again = watch_model(first, db=db, quiet=True)  # a notebook's cell that ran twice
    assert one.run == "" and again.run == f"{db}#2"
    two.close()
    again.close()


def test_files_are_private_and_the_row_tells_the_environment(db, database):
    with watch_model(nn.Linear(2, 2), db=db, quiet=True) as nanny:
        assert nanny.run
        for name in (db, db + "-ring"):
            assert stat.S_IMODE(os.stat(name).st_mode) == 0o600
    environment = json.loads(database().one("SELECT environment FROM run")["environment"])
    assert environment["torch"] == torch.__version__ and environment["devices"][0]["type"] == "cpu"
    meanings = database().rows("SELECT * FROM meaning")
    assert any(row["what"] == "step.flags" and row["value"] == "256" for row in meanings)


def test_an_unwritable_place_is_one_line_and_training_goes_on(tmp_path, capfd):
    (tmp_path / "file").write_text("")
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    nanny = MixedPrecisionNanny(model, db=tmp_path / "file" / "metrics.db", quiet=True)
    with nanny.step(0) as record:
        cross_entropy(model(batch()[0]), batch()[1]).backward()
        optimizer.step()
        record.log(loss=1.0)
    nanny.close()
    lines = [line for line in capfd.readouterr().err.splitlines() if line]
    assert len(lines) == 1 and lines[0].startswith("mpnanny: not watching: ")


def test_a_foreign_database_is_left_alone(db, capfd):
    with sqlite3.connect(db) as connection:
        connection.execute("CREATE TABLE mine (x)")
    before = pathlib.Path(db).read_bytes()
    watch_model(nn.Linear(2, 2), db=db, quiet=True).close()
    assert pathlib.Path(db).read_bytes() == before
    assert "another program" in capfd.readouterr().err


def test_a_full_disk_stops_the_monitor_not_the_training(tmp_path):
    """RLIMIT_FSIZE stands in for the full disk: writes beyond it fail."""
    process = python(
        """
        import signal, sys, time, torch
        from conftest import Mlp, batch, cross_entropy
        from mpnanny import watch_model
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        model = Mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        nanny = watch_model(model, db=sys.argv[1], trace_interval=1, quiet=True)
        stopped = None
        for step in range(100000):
            x, y = batch()
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
            if not nanny.run and stopped is None:
                stopped = step
            if stopped is not None and step > stopped + 20:
                break
        nanny.close()
        print("trained on", stopped is not None)
        """,
        str(tmp_path / "metrics.db"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000)),
    )
    out, errors = process.communicate(timeout=100)
    assert (out, process.returncode) == ("trained on True\n", 0), errors
    assert errors.count("mpnanny:") == 1 and "training goes on" in errors
    connection = sqlite3.connect(tmp_path / "metrics.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_past_its_limit_the_file_stops_growing(db, database):
    model = Mlp()
    nanny = watch_model(model, db=db, quiet=True, trace_interval=1, max_db_mb=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    for _ in range(2500):
        x, y = batch()
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
    nanny.close()
    assert os.path.getsize(db) < 6.5 * 2**20  # a batch or two past it
    assert database().one("SELECT count(*) AS n FROM step")["n"] == 2500
    events = database().rows("SELECT type, detail FROM event WHERE type = 'thinned'")
    assert events and json.loads(events[0]["detail"])["rows"] > 0
