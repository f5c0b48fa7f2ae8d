#!/usr/bin/env python3
"""A large recording as Parquet: seconds, memory and bytes of `mpnanny export`, and one question.

See bench/README.md.

Usage: bench/export.py --bin build/release/bin --db /tmp/queries.db [--rounds 3] [--duckdb FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

COLUMNS = 'max(absmax), sum("nan" + posinf + neginf), count(*)'  # of every layer's gradients


def export(program: pathlib.Path, words: list[str]) -> tuple[float, float, float, dict]:
    """Seconds, processor seconds, MB at most resident, and the report."""
    start = time.perf_counter()
    process = subprocess.Popen([program, "export", *words, "--format", "json"], stdout=-1)
    assert process.stdout
    report = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"export ended with {process.returncode}")
    busy = usage.ru_utime + usage.ru_stime
    return seconds, busy, usage.ru_maxrss / 1024, json.loads(report)


def timed(ask: Callable[[], list]) -> tuple[float, list]:
    start = time.perf_counter()
    rows = ask()
    return time.perf_counter() - start, rows


def compare(database: str, folder: pathlib.Path, rounds: int) -> None:
    try:
        import duckdb
    except ImportError:
        print("duckdb is not installed (pip install duckdb): the question is left out")
        return
    in_sqlite = (
        f"SELECT name, {COLUMNS} FROM tensor_stats JOIN layer USING (layer_id) WHERE kind = 3 "
        "GROUP BY name ORDER BY 2 DESC, name LIMIT 5"
    )
    in_parquet = (
        f"SELECT layer, {COLUMNS} FROM '{folder}/tensor_stats.parquet' WHERE kind = 3 "
        "GROUP BY layer ORDER BY 2 DESC, layer LIMIT 5"
    )
    sqlite = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    times: dict[str, list[float]] = {"SQLite": [], "Parquet, 1 thread": [], "Parquet": []}
    answers = []
    for _ in range(rounds):
        for name, took in times.items():
            if name == "SQLite":
                seconds, rows = timed(lambda: sqlite.execute(in_sqlite).fetchall())
            else:
                duckdb.sql(f"SET threads = {1 if '1' in name else os.cpu_count()}")
                seconds, rows = timed(lambda: duckdb.sql(in_parquet).fetchall())
            took.append(seconds)
            answers.append([tuple(row) for row in rows])
    if any(answer != answers[0] for answer in answers):
        sys.exit(f"the answers differ: {answers[0]} and {answers[1]}")
    for name, took in times.items():
        ratio = statistics.median(times["SQLite"]) / statistics.median(took)
        print(f"worst layers by gradient, {name}: {statistics.median(took):.3f} s ({ratio:.1f}x)")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--db", required=True, help="what bench-queries make has made")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--duckdb", default="", help="DuckDB's C library")
    options = parser.parse_args()
    size = os.path.getsize(options.db)
    print(
        f"{options.db}: {size / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores"
    )
    beside = pathlib.Path(options.db).resolve().parent
    with tempfile.TemporaryDirectory(dir=beside) as folder:
        out = pathlib.Path(folder) / "parquet"
        words = [options.db, "-o", str(out)]
        words += ["--duckdb", options.duckdb] if options.duckdb else []
        runs = []
        for turn in range(options.rounds):
            runs.append(export(options.bin / "mpnanny", words + ["--force"] * (turn > 0)))
        report = runs[0][3]
        rows = sum(table["rows"] for table in report["tables"])
        written = sum(table["bytes"] for table in report["tables"])
        seconds, busy, memory = (statistics.median(run[i] for run in runs) for i in range(3))
        print(f"DuckDB {report['duckdb']}, {rows} rows, {report['ranks']} ranks")
        print(
            f"export: {seconds:.1f} s ({busy:.1f} s of the processor, {rows / busy / 1e6:.2f} M "
            f"rows a second of it), {memory:.0f} MB resident at most"
        )
        print(f"files: {written / 1e6:.0f} MB, {written / size:.3f} of the database")
        compare(options.db, out, options.rounds)


if __name__ == "__main__":
    main()
