#!/usr/bin/env python3
"""Many ranks shipped into PostgreSQL on two cores, beside `cp` of the same files.

A small real training is recorded once, with the monitor; its rows are repeated over steps and
ranks. See bench/README.md.

Usage: bench/ship.py [--ranks 1000] [--steps 2000] [--interval 100] [--runs 1] [--folder DIR]
                     [--keep] [--lanes 2]
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/ranks"))
import postgres  # noqa: E402

RECORDED = 200  # steps of the real training
TRAIN = """
import torch
torch.manual_seed(0)
layers = []
for _ in range(6):
    layers += [torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.GELU()]
model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(%d):
    x = torch.randn(32, 64)
    loss = torch.nn.functional.cross_entropy(model(x), x[:, :8].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""


def record(program: pathlib.Path, folder: pathlib.Path, interval: int) -> pathlib.Path:
    script = folder / "train.py"
    script.write_text(TRAIN % RECORDED)
    words = [program, "run", "--quiet", "--interval", str(interval), "--db", folder / "recorded.db"]
    subprocess.run([*words, "--", sys.executable, script], check=True, cwd=folder)
    return folder / "recorded.db"


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def lengthen(source: pathlib.Path, steps: int) -> None:
    """The recorded steps again and again, with later numbers, until there are so many."""
    with sqlite3.connect(source) as db:
        for table in ("step", "tensor_stats", "shadow_step", "shadow_profile"):
            names = columns(db, table)
            for offset in range(RECORDED, steps, RECORDED):
                values = ", ".join(
                    f"{name} + {offset}" if name == "step" else name for name in names
                )
                db.execute(
                    f"INSERT OR IGNORE INTO {table} SELECT {values} FROM {table} WHERE step < ?"
                    " AND step + ? < ?",
                    [RECORDED, offset, steps],
                )
    db.close()


def make_rank(source: pathlib.Path, target: pathlib.Path, rank: int, world: int, run: int) -> None:
    shutil.copyfile(source, target)
    db = sqlite3.connect(target)
    db.execute("PRAGMA journal_mode=OFF")
    db.execute("PRAGMA synchronous=OFF")
    db.execute(
        "UPDATE run SET rank=?, world_size=?, name=?, started_at=started_at + ?",
        [rank, world, f"bench {run}", run * 10_000 + rank * 0.01],
    )
    # Ranks see other batches: other losses.
    db.execute("UPDATE step SET loss = loss * ?, at = at + ?", [1 + rank * 1e-6, rank * 1e-4])
    db.commit()
    db.close()


def make(source: pathlib.Path, folder: pathlib.Path, ranks: int, runs: int) -> None:
    """`folder`/run0/metrics.rank0.db and so on."""
    for run in range(runs):
        (folder / f"run{run}").mkdir()
        for rank in range(ranks):
            make_rank(source, folder / f"run{run}/metrics.rank{rank}.db", rank, ranks, run)


def bytes_of(folder: pathlib.Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("run*/*.db"))


def server_seconds(server: postgres.Postgres) -> float:
    """Processor time of the server's sessions that have ended."""
    time.sleep(1)  # until they are reaped
    pid = (server.data / "postmaster.pid").read_text().split()[0]
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(*words: object) -> tuple[float, str]:
    began = time.monotonic()
    done = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)
    return time.monotonic() - began, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--interval", type=int, default=100, help="of the recording, in steps")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--folder", type=pathlib.Path, help="where files and server lie")
    parser.add_argument("--keep", action="store_true", help="wait for Enter before all is removed")
    options = parser.parse_args()
    program = options.bin / "mpnanny"
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:2]))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mpnanny-ship-", dir=options.folder))
    folder.chmod(0o755)
    try:
        measure(program, folder, options)
    finally:
        shutil.rmtree(folder)


def measure(program: pathlib.Path, folder: pathlib.Path, options: argparse.Namespace) -> None:
    ranks = options.ranks
    source = record(program, folder, options.interval)
    lengthen(source, options.steps)
    make(source, folder, 1, 1)
    one = bytes_of(folder)
    shutil.rmtree(folder / "run0")
    # The server needs three to four times the files' room, its log a gigabyte, the copy once more.
    most = int((shutil.disk_usage(folder).free - (4 << 30)) / (6 * one * options.runs))
    if most < ranks:
        print(f"scaled down from {ranks} to {most} ranks: the disk ends")
        ranks = most
    make(source, folder, ranks, options.runs)
    size = bytes_of(folder)
    load = os.getloadavg()[0]
    print(f"load before: {load:.1f}")
    print(f"{options.runs} x {ranks} ranks x {options.steps} steps, {size / 1e6:.0f} MB of SQLite")

    copies = folder / "copies"
    copies.mkdir()
    runs = sorted(folder.glob("run*"))
    subprocess.run(["sync"], check=True)
    began = time.monotonic()
    timed("cp", "-r", *runs, copies)
    subprocess.run(["sync"], check=True)
    print(f"cp and sync: {time.monotonic() - began:.1f} s")
    shutil.rmtree(copies)

    # As Debian's package sets it up, but for the socket's place.
    with postgres.running("fsync=on", beside=folder) as server:
        timed(program, "ship", "--setup", server.url())
        words = ["--to", server.url(), "--lanes", options.lanes, "--format", "json"]
        before = own_seconds(), server_seconds(server)
        took, said = timed(program, "ship", *runs, *words)
        spent = own_seconds() - before[0], server_seconds(server) - before[1]
        told = json.loads(said)
        assert told["whole"], told["notes"]
        rows = told["rows"]
        print(f"ship: {took:.1f} s, {rows} rows, {rows / took:.0f} rows/s, {told['bytes']} bytes")
        print(f"processor time: {spent[0]:.1f} s of the shipper, {spent[1]:.1f} s of the server")
        merged = server.sql("SELECT min(merged_to), max(merged_to) FROM mpnanny.training")
        lost = server.sql("SELECT count(*) FROM mpnanny.part WHERE NOT ended")
        assert lost == [["0"]] and merged[0][0] == str(options.steps - 1), (lost, merged)
        stored = server.sql("SELECT pg_database_size('postgres')")[0][0]
        print(f"the database: {int(stored) / 1e6:.0f} MB")
        took, said = timed(program, "ship", *runs, *words)
        print(f"shipped again: {took:.1f} s, {json.loads(said)['rows']} rows")
        if options.keep:
            input(f"{server.url()} is there until Enter ")


if __name__ == "__main__":
    main()
