"""Databases as the monitor's schema makes them, row by row, and what of them is on a server."""

from __future__ import annotations

import pathlib
import sqlite3
import time
from typing import Any

from postgres import Postgres

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = sorted((ROOT / "monitor/schema").glob("*.sql"))
ODD = "läger 'x' \"y\"\t\\n \\. \r\n, ; 层 \U0001f600 <b>"
HOST = "elsewhere"  # no process of this machine is looked for

Row = tuple[Any, ...]


class Recording:
    """One rank's file, written as a monitor writes it: WAL, in batches."""

    def __init__(
        self,
        path: pathlib.Path,
        *,
        name: str = "train",
        rank: int = 0,
        world: int = 1,
        started: float | None = None,
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        new = not path.exists()
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        if new:
            for file in SCHEMA:
                self.db.executescript(file.read_text(encoding="utf-8"))
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=OFF")
        started = time.time() if started is None else started
        self.run = self.db.execute(
            "INSERT INTO run (name, rank, world_size, started_at, heartbeat_at, environment)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (name, rank, world, started, time.time(), f'{{"host": "{HOST}"}}'),
        ).lastrowid
        self.next = 0

    def describe(self, layers: int = 3) -> None:
        for i in range(layers):
            self.insert("layer", run_id=self.run, name=f"{ODD}.{i}", type="Linear", numel=i)
        self.db.execute(
            "INSERT OR REPLACE INTO meaning VALUES ('tensor_stats.kind', '0', ?)", [ODD]
        )

    def insert(self, table: str, **values: object) -> None:
        names = ", ".join(values)
        marks = ", ".join("?" * len(values))
        self.db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))

    def steps(self, count: int, sample: int = 10) -> None:
        """More steps in one transaction, some of them sampled, with values that are not finite."""
        self.db.execute("BEGIN")
        layers = [row[0] for row in self.db.execute("SELECT layer_id FROM layer")]
        for step in range(self.next, self.next + count):
            bad = step % 7 == 3
            self.insert(
                "step",
                run_id=self.run,
                step=step,
                at=1e9 + step / 3,
                duration=0.1 + step * 1e-9,
                loss=None if bad else 1 / (step + 1),
                lr=1e-3,
                loss_scale=65536.0,
                grad_norm=float("inf") if step % 11 == 5 else 5e-324 * (step + 1),
                flags=(1 if bad else 0) | (16 if step % 5 == 0 else 0),
            )
            if step % sample:
                continue
            for layer in layers:
                self.insert(
                    "tensor_stats",
                    run_id=self.run,
                    step=step,
                    layer_id=layer,
                    kind=1,
                    slot=0,
                    numel=2**62 + step,
                    nan=step,
                    absmax=-0.0 if step == 0 else 1.7976931348623157e308,
                    mean=0.1 * step,
                    exponents=bytes(range(256)) if step % 20 == 0 else None,
                )
        self.next += count
        self.db.execute("UPDATE run SET heartbeat_at=? WHERE run_id=?", (time.time(), self.run))
        self.db.execute("COMMIT")

    def fill(self, table: str) -> None:
        """One row of a table that nothing here knows."""
        sql = f"PRAGMA table_info({table})"
        values = {"INTEGER": 7, "REAL": 0.1, "TEXT": ODD, "BLOB": b"\0\xff"}
        row = {one[1]: values[one[2]] for one in self.db.execute(sql)}
        self.insert(table, **{**row, **({"run_id": self.run} if "run_id" in row else {})})

    def alert(self, step: int, message: str = ODD) -> None:
        self.insert(
            "alert",
            run_id=self.run,
            step=step,
            type="NAN",
            severity="ERROR",
            value=None,
            threshold=1e-320,
            message=message,
        )

    def event(self, step: int | None, kind: str = "dense_on") -> None:
        self.insert("event", run_id=self.run, step=step, at=1.5, type=kind, detail="")

    def close(self, reason: str = "closed") -> None:
        self.db.execute(
            "UPDATE run SET ended_at=?, end_reason=? WHERE run_id=?",
            (time.time(), reason, self.run),
        )
        self.db.close()


def tables(path: pathlib.Path) -> list[str]:
    with sqlite3.connect(path) as db:
        sql = "SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite_%'"
        return sorted(row[0] for row in db.execute(sql))


def columns(path: pathlib.Path, table: str) -> list[tuple[str, str]]:
    with sqlite3.connect(path) as db:
        told = [(row[1], row[2]) for row in db.execute(f"PRAGMA table_info({table})")]
    return [one for one in told if one[0] != "rank"]  # the rank stands in front


def in_file(path: pathlib.Path, table: str, run: int = 1) -> list[Row]:
    names = [name for name, _ in columns(path, table)]
    where = "WHERE run_id=?" if "run_id" in names else "WHERE ? IS NOT NULL"
    with sqlite3.connect(path) as db:
        rows = db.execute(f"SELECT {', '.join(names)} FROM {table} {where}", [run]).fetchall()
    return sorted(rows, key=repr)


def value(text: str, kind: str) -> object:
    if text == "<null>":
        return None
    if kind == "INTEGER":
        return int(text)
    if kind == "REAL":
        return float(text)
    return bytes.fromhex(text[2:]) if kind == "BLOB" else text


def on_server(
    server: Postgres, path: pathlib.Path, table: str, training: int, rank: int, database: str
) -> list[Row]:
    kinds = columns(path, table)
    names = ", ".join(f'"{name}"' for name, _ in kinds)
    rows = server.sql(
        f"SELECT {names} FROM mpnanny.{table} WHERE training_id={training} AND rank={rank}",
        database=database,
    )
    return sorted(
        (
            tuple(value(text, kind) for text, (_, kind) in zip(row, kinds, strict=True))
            for row in rows
        ),
        key=repr,
    )


def differences(
    server: Postgres,
    path: pathlib.Path,
    training: int,
    rank: int = 0,
    run: int = 1,
    database: str = "postgres",
) -> list[str]:
    """What of a file's run is otherwise on the server, table by table."""
    told = []
    for table in tables(path):
        here, there = (
            in_file(path, table, run),
            on_server(server, path, table, training, rank, database),
        )
        if repr(here) != repr(there):  # tells -0.0 from 0.0, which == does not
            lost = [row for row in here if repr(row) not in set(map(repr, there))]
            more = [row for row in there if repr(row) not in set(map(repr, here))]
            told.append(
                f"{table}: {len(here)} in the file, {len(there)} on the server; "
                f"lost {lost[:2]}, more {more[:2]}"
            )
    return told
