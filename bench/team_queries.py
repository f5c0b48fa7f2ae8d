#!/usr/bin/env python3
"""Questions about many ranks and many runs, asked of PostgreSQL and, beside it, of the files.

The runs are those of bench/ship.py, with alerts on every rank; one server of ours answers all
questions over stdio. See bench/README.md.

Usage: bench/team_queries.py [--ranks 1000] [--steps 2000] [--calls 50] [--list 100]
                             [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import ship

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/ranks"))
import postgres  # noqa: E402

WARNINGS = 10  # on every rank
LIST_RANKS, LIST_STEPS = 10, 200  # of each of the runs that are listed


def plant(folder: pathlib.Path, steps: int) -> int:
    """Warnings and the same error on every rank, on one of them a step before the others."""
    files = sorted(folder.glob("metrics.rank*.db"))
    first = len(files) * 137 // 1000
    for file in files:
        rank = int(file.name.split("rank")[1].split(".")[0])
        bad = steps * 3 // 4 + (0 if rank == first else 1)
        with sqlite3.connect(file) as db:
            layers = [row[0] for row in db.execute("SELECT layer_id FROM layer ORDER BY 1")]
            told = [
                (i * steps // (2 * WARNINGS), "backward", layers[i % len(layers)], 3)
                + ("GRAD_VANISH", "WARNING", "the gradient vanishes")
                for i in range(WARNINGS)
            ]
            told.append((bad, "forward", layers[3], 1, "NAN", "ERROR", "64 of 2048 are NaN"))
            told.append((bad, "loss", None, None, "LOSS_NAN", "ERROR", "the loss is NaN"))
            db.executemany(
                "INSERT INTO alert (run_id, step, phase, layer_id, kind, type, severity, message,"
                " value) SELECT min(run_id), ?, ?, ?, ?, ?, ?, ?, 1e-9 FROM run",
                told,
            )
            db.execute("UPDATE step SET loss=NULL, flags=flags | 1 WHERE step >= ?", [bad])
        db.close()
    return first


class Server:
    """`mpnanny serve`, as a client starts it."""

    def __init__(self, program: pathlib.Path, *roots: object) -> None:
        words = [program, "serve"]
        for root in roots:
            words += ["--root", root]
        self.process = subprocess.Popen(
            list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.number = 0
        self.ask(
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "bench", "version": "1"},
        )

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.number:
                return answer["result"]

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        began = time.monotonic()
        result = self.ask("tools/call", name=tool, arguments=arguments)
        took = time.monotonic() - began
        assert not result.get("isError"), result
        return took, result["structuredContent"]

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def p95(times: list[float]) -> float:
    return sorted(times)[max(0, -(-len(times) * 95 // 100) - 1)]


def line(what: str, there: list[float], here: list[float]) -> None:
    def shown(times: list[float]) -> str:
        return (
            f"{statistics.median(times) * 1e3:9.1f} {p95(times) * 1e3:9.1f} {times[0] * 1e3:9.1f}"
        )

    print(f"{what:38} {shown(there)}  {shown(here)}   {len(there)}/{len(here)}", flush=True)


def questions(layers: list[str]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    def of_layer(layer: str) -> dict[str, Any]:
        return {"metric": "activation.absmax", "layers": [layer], "aggregate": "ranks"}

    return [
        ("run_summary", "run_summary", [{}]),
        ("query_alerts", "query_alerts", [{}]),
        ("which rank was first (ERROR alerts)", "query_alerts", [{"severity": "ERROR"}]),
        ("one layer over all ranks", "query_stats", [of_layer(layer) for layer in layers]),
        ("diagnose_run", "diagnose_run", [{}]),
    ]


def compare(server: Server, url: str, folder: pathlib.Path, options: argparse.Namespace) -> None:
    with sqlite3.connect(folder / "metrics.rank0.db") as db:
        sql = "SELECT name FROM layer WHERE type LIKE 'Lin%' ORDER BY position"
        layers = [row[0] for row in db.execute(sql)]
    for what, tool, more in questions(layers):
        there, here = [], []
        calls = options.calls if tool != "diagnose_run" else 5
        for i in range(calls):
            took, answer = server.call(tool, {"run": url, **more[i % len(more)]})
            there.append(took)
            check(what, answer, options)
        for i in range(options.file_calls):
            took, _ = server.call(tool, {"run": str(folder), **more[i % len(more)]})
            here.append(took)
        line(what, there, here)


def check(what: str, answer: dict[str, Any], options: argparse.Namespace) -> None:
    """That it was answered at all, and over all ranks."""
    first = options.ranks * 137 // 1000
    if what == "run_summary":
        assert answer["steps"] == options.steps, answer
    if what.startswith("which rank"):
        assert answer["alerts"][0]["ranks"] == [first], answer["alerts"][0]
    if what.startswith("one layer"):
        assert answer["series"][0]["ranks"] == options.ranks, answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--interval", type=int, default=100, help="of the recording, in steps")
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--file-calls", type=int, default=3)
    parser.add_argument("--list", type=int, default=100, help="runs that are listed")
    parser.add_argument("--folder", type=pathlib.Path, help="where files and server lie")
    options = parser.parse_args()
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:2]))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mpnanny-queries-", dir=options.folder))
    folder.chmod(0o755)
    try:
        with postgres.running("shared_buffers=1GB", beside=folder) as server:
            measure(options.bin / "mpnanny", folder, server, options)
    finally:
        shutil.rmtree(folder)


def make(
    program: pathlib.Path, folder: pathlib.Path, interval: int, steps: int, ranks: int, runs: int
) -> None:
    source = ship.record(program, folder, interval)
    ship.lengthen(source, steps)
    ship.make(source, folder, ranks, runs)
    for file in folder.glob("recorded.db*"):
        file.unlink()


def ship_all(program: pathlib.Path, server: postgres.Postgres, folder: pathlib.Path) -> None:
    subprocess.run([program, "ship", "--setup", server.url()], check=True, capture_output=True)
    runs = sorted(folder.glob("run*"))
    words = [program, "ship", *runs, "--to", server.url(), "--format", "json"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["whole"], done.stdout
    server.sql("VACUUM ANALYZE")  # as autovacuum has done a minute later


def measure(
    program: pathlib.Path,
    folder: pathlib.Path,
    server: postgres.Postgres,
    options: argparse.Namespace,
) -> None:
    make(program, folder, options.interval, options.steps, options.ranks, 1)
    first = plant(folder / "run0", options.steps)
    ship_all(program, server, folder)
    rows = server.sql("SELECT count(*) FROM mpnanny.tensor_stats")[0][0]
    size = int(server.sql("SELECT pg_database_size('postgres')")[0][0])
    print(
        f"{options.ranks} ranks x {options.steps} steps, {rows} rows of statistics, "
        f"{WARNINGS + 2} alerts a rank; rank {first} is bad first"
    )
    print(f"files {ship.bytes_of(folder) / 1e6:.0f} MB, database {size / 1e6:.0f} MB")
    print(f"{'milliseconds':38} {'database: p50, p95, first':>29}  {'files: p50, p95, first':>29}")
    asked = Server(program, folder, server.url())
    compare(asked, server.url(), folder / "run0", options)
    asked.close()
    shutil.rmtree(folder / "run0")

    server.sql("DROP SCHEMA mpnanny CASCADE")
    make(program, folder, options.interval, LIST_STEPS, LIST_RANKS, options.list)
    for run in folder.glob("run*"):
        plant(run, LIST_STEPS)
    ship_all(program, server, folder)
    asked = Server(program, folder, server.url())
    there = [asked.call("list_runs", {"path": server.url()})[0] for _ in range(options.calls)]
    here = [asked.call("list_runs", {"path": str(folder)})[0] for _ in range(options.file_calls)]
    line(f"list_runs, {options.list} runs x {LIST_RANKS} ranks", there, here)
    asked.close()


if __name__ == "__main__":
    main()
