"""What a real training recorded, as Parquet: `mpnanny export`, read by PyPI's DuckDB, another one
than that which wrote.
"""

from __future__ import annotations

import collections
import json
import pathlib
import sqlite3
import subprocess

import pytest
import torch
from conftest import PACKAGE, Mlp, batch, cross_entropy
from mpnanny import MixedPrecisionNanny

PROGRAM = PACKAGE.parent / "bin/mpnanny"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Runs of one file: a shadow step in the first, a NaN in the second."""
    path = tmp_path_factory.mktemp("recorded") / "metrics.db"
    for bad in (False, True):
        torch.manual_seed(0)
        model = Mlp()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        shadow = "off" if bad else "steps=2-3"
        nanny = MixedPrecisionNanny(
            model, optimizer=optimizer, db=str(path), trace_interval=5, quiet=True, shadow=shadow
        )
        for step in range(25):
            with nanny.step(step):
                x, y = batch()
                loss = cross_entropy(model(x * float("nan") if bad and step == 20 else x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        nanny.close()
    return path


def export(*words: str | pathlib.Path) -> dict:
    done = subprocess.run(
        [PROGRAM, "export", *words, "--format", "json"], capture_output=True, text=True
    )
    if done.returncode != 0:
        error = json.loads(done.stderr)["error"]
        if error["kind"] == "Unavailable" and "is not here" in error["message"]:
            pytest.skip(error["message"])
        pytest.fail(done.stderr)
    return json.loads(done.stdout)


def test_every_row_of_a_recorded_run_is_in_the_files(recorded, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    out = tmp_path / "out"
    handles = [f"{recorded}#1", f"{recorded}#2"]
    report = export(*handles, "-o", out)
    assert report["runs"] == handles
    sqlite = sqlite3.connect(recorded)
    tables = [row[0] for row in sqlite.execute("SELECT name FROM sqlite_schema WHERE type='table'")]
    assert [table["table"] for table in report["tables"]] == tables
    filled = 0
    for table in tables:
        names = [row[1] for row in sqlite.execute(f"PRAGMA table_info({table})")]
        columns = ", ".join(f'"{name}"' for name in names)
        expected = collections.Counter(sqlite.execute(f"SELECT {columns} FROM {table}"))
        if table == "meaning":  # of each run, since they may be of files of their own
            expected += expected
        read = duckdb.sql(f"SELECT {columns} FROM '{out}/{table}.parquet'").fetchall()
        assert collections.Counter(read) == expected, table
        filled += len(read) > 0
    assert filled >= 8
    for table in ("tensor_stats", "alert", "shadow_profile"):
        named = duckdb.sql(f"SELECT run, layer_id, layer FROM '{out}/{table}.parquet'").fetchall()
        layers = dict(sqlite.execute("SELECT layer_id, name FROM layer"))
        assert named
        assert all(layer == layers.get(layer_id) for _, layer_id, layer in named), table
    (first,) = duckdb.sql(
        f"SELECT run, min(step) FROM '{out}/alert.parquet' WHERE type='NAN' GROUP BY run"
    ).fetchall()
    assert first == (handles[1], 20)


def test_chosen_tables_only(recorded, tmp_path):
    report = export(recorded, "-o", tmp_path / "out", "--tables", "step,alert")
    assert [table["table"] for table in report["tables"]] == ["step", "alert"]
    assert report["tables"][0]["rows"] == 25
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "alert.parquet",
        "step.parquet",
    ]


def test_without_the_library_the_error_says_so(recorded, tmp_path):
    done = subprocess.run(
        [PROGRAM, "export", recorded, "-o", tmp_path / "out", "--duckdb", tmp_path / "none.so"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("mpnanny export: DuckDB's C library, named by --duckdb")
    assert not (tmp_path / "out").exists()
