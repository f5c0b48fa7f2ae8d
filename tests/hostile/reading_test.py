"""The reader writes nothing: whatever state a run's files are in, every tool and resource leaves
the names, sizes, times and bytes of everything in the run's folder as they were.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import sqlite3
from collections.abc import Callable
from urllib.parse import quote

import pytest
from conftest import STEPS, Server, record, record_and_die, text_of

NAME = "metrics.db"
Held = list[sqlite3.Connection]


def beside(folder: pathlib.Path, end: str) -> pathlib.Path:
    return folder / (NAME + end)


def make_live(folder: pathlib.Path, held: Held) -> None:
    held.append(record(folder / NAME, wal=True))


def make_killed(folder: pathlib.Path, held: Held) -> None:
    record_and_die(folder / NAME)


def make_closed(folder: pathlib.Path, held: Held) -> None:
    record(folder / NAME).close()


def make_without_index(folder: pathlib.Path, held: Held) -> None:
    record_and_die(folder / NAME)
    beside(folder, "-shm").unlink()


def make_without_wal(folder: pathlib.Path, held: Held) -> None:
    file = record(folder / NAME, wal=True)
    file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(folder / NAME, folder / "copy")
    file.close()
    (folder / "copy").rename(folder / NAME)


def make_empty_wal(folder: pathlib.Path, held: Held) -> None:
    make_without_wal(folder, held)
    beside(folder, "-wal").touch()
    beside(folder, "-shm").touch()


def make_unwritable(folder: pathlib.Path, held: Held) -> None:
    record_and_die(folder / NAME)
    for each in folder.iterdir():
        each.chmod(0o444)
    folder.chmod(0o555)


def make_unwritable_without_index(folder: pathlib.Path, held: Held) -> None:
    make_without_index(folder, held)
    folder.chmod(0o555)


def hard_linked(end: str) -> Callable[[pathlib.Path, Held], None]:
    """`end` is another name of a file that lies elsewhere in the folder."""

    def make(folder: pathlib.Path, held: Held) -> None:
        record_and_die(folder / NAME)
        (folder / "elsewhere").mkdir()
        os.link(beside(folder, end), folder / "elsewhere/file")

    return make


def make_index_of_another(folder: pathlib.Path, held: Held) -> None:
    """The index is a hard link to a file that has nothing to do with it."""
    record_and_die(folder / NAME)
    beside(folder, "-shm").unlink()
    (folder / "precious.bin").write_bytes(bytes(range(256)) * 160)
    os.link(folder / "precious.bin", beside(folder, "-shm"))


def make_cut_wal(folder: pathlib.Path, held: Held) -> None:
    record_and_die(folder / NAME)
    os.truncate(beside(folder, "-wal"), beside(folder, "-wal").stat().st_size - 3000)


def make_no_wal(folder: pathlib.Path, held: Held) -> None:
    """What is called a WAL is none: it holds nothing, and is not waited for."""
    make_without_wal(folder, held)
    beside(folder, "-wal").write_bytes(os.urandom(100_000))


def make_ring(folder: pathlib.Path, held: Held) -> None:
    record_and_die(folder / NAME)
    beside(folder, "-ring").write_bytes(b"MPNYRING" + bytes(4000))


def make_journal(folder: pathlib.Path, held: Held) -> None:
    """A process died in the middle of a transaction without a WAL."""
    make_closed(folder, held)
    with sqlite3.connect(folder / NAME, isolation_level=None) as file:
        file.execute("PRAGMA cache_size=2")
        file.execute("BEGIN")
        file.execute("UPDATE tensor_stats SET absmax=7")
        file.execute("CREATE TABLE filler AS SELECT zeroblob(200000)")
        for end in ("", "-journal"):
            shutil.copy(beside(folder, end), folder / ("copy" + end))
    file.close()
    for end in ("", "-journal"):
        (folder / ("copy" + end)).rename(beside(folder, end))


# Of the third element: whether the run can be read at all.
KINDS = {
    "live": (make_live, True),
    "killed": (make_killed, True),
    "closed": (make_closed, True),
    "without its index": (make_without_index, True),
    "without its WAL": (make_without_wal, True),
    "with an empty WAL": (make_empty_wal, True),
    "that may not be written": (make_unwritable, True),
    "that may not be written, without its index": (make_unwritable_without_index, True),
    "hard-linked": (hard_linked(""), True),
    "with a hard-linked WAL": (hard_linked("-wal"), True),
    "with a hard-linked index": (hard_linked("-shm"), True),
    "with the index of another file": (make_index_of_another, True),
    "with a cut WAL": (make_cut_wal, False),
    "with a WAL that is none": (make_no_wal, True),
    "with a ring": (make_ring, True),
    "with a journal": (make_journal, False),
}


def state(folder: pathlib.Path) -> dict[str, tuple[object, ...]]:
    """All that tells whether something was written. Not the time of reading."""
    found = {}
    for each in [folder, *sorted(folder.rglob("*"))]:
        info = each.lstat()
        held = hashlib.sha256(each.read_bytes()).hexdigest() if each.is_file() else ""
        times = info.st_mtime_ns, info.st_ctime_ns
        kept = info.st_size, info.st_mode, info.st_ino, info.st_nlink
        found[str(each.relative_to(folder))] = (held, *times, *kept)
    return found


def calls(run: str) -> list[tuple[str, dict[str, object]]]:
    """Every tool that takes a run, in each of its ways."""
    found: list[tuple[str, dict[str, object]]] = [
        ("run_summary", {"run": run}),
        ("run_summary", {"run": run, "detail": "full", "picture": True}),
        ("query_alerts", {"run": run}),
        ("query_stats", {"run": run, "metric": "loss"}),
        ("query_stats", {"run": run, "metric": "absmax", "picture": True}),
        ("diagnose_run", {"run": run}),
        ("compare_runs", {"a": run, "b": run}),
        ("compare_logprobs", {"run": run}),
        ("compare_logprobs", {"a": run, "b": run}),
        ("choose_precision", {"run": run}),
        ("list_runs", {"path": "."}),
        ("list_runs", {"path": run}),
        ("analyze_tensor", {"path": run}),
        ("static_check", {"paths": ["."]}),
    ]
    return found


def test_every_tool_that_takes_a_run_is_asked(root: pathlib.Path) -> None:
    asked = {tool for tool, _ in calls("")}
    with Server(root) as server:
        tools = server.ask("tools/list", {})["result"]["tools"]
    takes = {
        tool["name"]
        for tool in tools
        if {"run", "a", "path", "log_path", "paths"} & set(tool["inputSchema"]["properties"])
    }
    assert takes <= asked, takes - asked


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_written(root: pathlib.Path, kind: str) -> None:
    make, readable = KINDS[kind]
    held: Held = []
    folder = root / "run"
    folder.mkdir()
    make(folder, held)
    before = state(root)
    with Server(root) as server:
        run = f"run/{NAME}"
        for tool, arguments in calls(run):
            answer = server.call(tool, **arguments)
            assert state(root) == before, f"{tool} {arguments} changed something"
            if tool == "run_summary" and readable:
                assert not answer.get("isError"), text_of(answer)
                assert answer["structuredContent"]["steps"] == STEPS
        for what in ("summary", "view"):
            server.ask("resources/read", {"uri": f"mpnanny://runs/{quote(run, safe='')}/{what}"})
            assert state(root) == before, f"the resource {what} changed something"
    assert state(root) == before
    for file in held:
        file.close()


def test_a_run_that_begins_again_is_not_read_with_an_index_of_its_own(root: pathlib.Path) -> None:
    """A writer comes to a database that was read as one that nobody writes, and folds the WAL into
    it: the next answers are the new state's."""
    make_without_index(root, [])
    with Server(root) as server:
        assert server.call("run_summary", run=NAME)["structuredContent"]["steps"] == STEPS
        writer = sqlite3.connect(root / NAME, isolation_level=None)
        for step in range(STEPS, STEPS + 40):
            writer.execute(
                "INSERT INTO step (run_id, step, at, flags) VALUES (1, ?, 1.7e9, 0)", [step]
            )
            if step % 10 == 0:
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            answer = server.call("run_summary", run=NAME)
            assert answer["structuredContent"]["steps"] == step + 1, text_of(answer)
        writer.close()
