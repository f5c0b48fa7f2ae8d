"""What may be read, and what becomes of a database that is not there, not ours, or hostile."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from asked import Client, call, handle, record
from conftest import PROGRAM, Team, make_team, ran
from postgres import Postgres

TOOLS = [
    ("run_summary", "run", {}),
    ("diagnose_run", "run", {}),
    ("query_alerts", "run", {}),
    ("query_stats", "run", {}),
    ("query_stats", "run", {"metric": "loss"}),
    ("list_runs", "path", {}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    made = tmp_path_factory.mktemp("ranks")
    record(made, 3)
    return made


@pytest.fixture
def shipped(team: Team, folder: pathlib.Path) -> Team:
    team.ship(folder)
    return team


def refused(url: str, *roots: object, tool: str = "run_summary", key: str = "run") -> dict:
    return call(tool, {key: url}, *roots, code=2)["error"]


# --- what may be read ---------------------------------------------------------------------------


def test_a_database_that_nobody_allowed_is_not_asked(shipped: Team, tmp_path: pathlib.Path) -> None:
    for tool, key, more in TOOLS:
        error = call(tool, {key: shipped.url(), **more}, tmp_path, code=2)["error"]
        assert error["kind"] == "InvalidInput"
        assert "is no database that this server may read" in error["message"]
        assert "--root postgresql://" in str(error)


def test_another_database_of_the_same_server_is_not_asked(server: Postgres, shipped: Team) -> None:
    other = make_team(server)
    assert "may read" in refused(other.url(), shipped.url())["message"]


def test_a_client_does_not_choose_how_the_database_is_reached(shipped: Team) -> None:
    """User and options are those of --root: they lead to files and to other servers."""
    folder = shipped.server.folder
    for url in (
        f"postgresql:///{shipped.database}?host={folder}&user=nobody_there",
        f"postgresql:///{shipped.database}?host={folder}&sslmode=verify-full&sslrootcert=/etc/passwd",
    ):
        assert call("run_summary", {"run": url}, shipped.url())["steps"] == 200
    leading_elsewhere = f"{shipped.url()}&hostaddr=127.0.0.1"
    assert "may read" in refused(leading_elsewhere, shipped.url())["message"]


def test_a_root_may_be_a_database_alone(shipped: Team, tmp_path: pathlib.Path) -> None:
    assert "no folder is open" in refused(str(tmp_path), shipped.url())["message"].lower()


def test_no_password_in_a_url(shipped: Team) -> None:
    for url in ("postgresql://me:geheim@host/db", "postgresql://host/db?password=geheim"):
        assert "geheim" not in str(refused(url, shipped.url()))
        said = ran("summary", "--db", url, code=2)
        assert "geheim" not in said and "PGPASSWORD" in said
        said = ran("serve", "--root", url, code=None)
        assert "geheim" not in said and "must not hold a password" in said


# --- servers that do not answer -----------------------------------------------------------------


def test_a_server_that_is_not_there(tmp_path: pathlib.Path) -> None:
    url = f"postgresql:///db?host={tmp_path}"
    for tool, key, more in TOOLS:
        error = call(tool, {key: url, **more}, url, code=2, limit=10)["error"]
        assert error["kind"] == "Unavailable" and "cannot be reached" in error["message"]


def postmaster(server: Postgres) -> int:
    return int((server.data / "postmaster.pid").read_text().split()[0])


@pytest.fixture
def stopped(own_team: Team, folder: pathlib.Path) -> Iterator[Team]:
    """A server that takes connections and answers none."""
    own_team.ship(folder)
    process = postmaster(own_team.server)
    os.kill(process, signal.SIGSTOP)
    try:
        yield own_team
    finally:
        os.kill(process, signal.SIGCONT)


def test_a_server_that_takes_the_call_and_says_nothing(stopped: Team) -> None:
    began = time.monotonic()
    error = refused(stopped.url(), stopped.url())
    assert error["kind"] == "Unavailable" and "did not answer within" in error["message"]
    assert time.monotonic() - began < 15
    # The server of the tools goes on answering.
    with Client(stopped.url()) as client:
        assert client.ask("tools/list")["result"]["tools"]


def test_a_table_that_somebody_has_locked_ends_in_time(shipped: Team) -> None:
    """query_stats has eight seconds of its own; the lock outlives them."""
    holder = shipped.server.hold(
        "BEGIN; LOCK TABLE mpnanny.step IN ACCESS EXCLUSIVE MODE;", shipped.database
    )
    try:
        began = time.monotonic()
        question = {"run": handle(shipped), "metric": "absmax"}
        assert call("query_stats", question, shipped.url())["series"]  # does not need it
        error = call(
            "query_stats", {**question, "metric": "loss", "rank": 0}, shipped.url(), code=2
        )["error"]
        assert error["kind"] == "DeadlineExceeded"
        assert time.monotonic() - began < 30
    finally:
        holder.kill()
        holder.wait()


# --- databases that are not ours ----------------------------------------------------------------


def test_a_database_without_the_tables(server: Postgres) -> None:
    server.sql("CREATE DATABASE bare")
    url = server.url(database="bare")
    for tool, key, more in TOOLS:
        error = call(tool, {key: url, **more}, url, code=2)["error"]
        assert error["kind"] == "NotFound" and "ship --setup" in str(error)


def test_a_database_without_trainings(team: Team) -> None:
    assert call("list_runs", {"path": team.url()}, team.url())["runs"] == []
    assert "holds no training yet" in refused(team.url(), team.url())["message"]


@pytest.mark.parametrize("version", [0, 99])
def test_another_layout(shipped: Team, version: int) -> None:
    shipped.sql(f"UPDATE mpnanny.version SET version={version}")
    for tool, key, more in TOOLS:
        error = call(tool, {key: shipped.url(), **more}, shipped.url(), code=2)["error"]
        assert f"layout version {version}" in error["message"]


def test_who_may_not_read_is_told_so(shipped: Team) -> None:
    shipped.sql(
        "DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    url = shipped.url("stranger")
    error = refused(url, url)
    assert error["kind"] == "InvalidInput" and "mpnanny_reader" in str(error)
    shipped.sql("GRANT mpnanny_reader TO stranger")
    assert call("run_summary", {"run": url}, url)["steps"] == 200


def test_a_reader_changes_nothing(shipped: Team) -> None:
    """Not even a database that would let it: the session may only read."""
    before = shipped.sql("SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables")
    shipped.sql(
        "CREATE FUNCTION mpnanny.left(text, integer) RETURNS text LANGUAGE sql AS "
        "$$ INSERT INTO mpnanny.version VALUES (7) RETURNING 'x' $$"
    )
    for tool, key, more in TOOLS:
        assert call(tool, {key: shipped.url(), **more}, shipped.url())
    assert shipped.sql("SELECT version FROM mpnanny.version") == [["1"]]
    after = shipped.sql("SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables")
    assert before == after


# --- hostile content ----------------------------------------------------------------------------

HOSTILE = {
    "a view for a table": "ALTER TABLE mpnanny.alert RENAME TO hidden; CREATE VIEW mpnanny.alert AS"
    " SELECT *, (SELECT count(*) FROM pg_sleep(99)) FROM mpnanny.hidden",
    "a column of another type": "ALTER TABLE mpnanny.alert"
    " ALTER COLUMN value TYPE text USING 'odd'",
    "a column that is no number": "ALTER TABLE mpnanny.step"
    " ALTER COLUMN loss TYPE text USING 'odd'",
    "a column that is gone": "ALTER TABLE mpnanny.tensor_stats DROP COLUMN absmax",
    "a table that is gone": "DROP TABLE mpnanny.layer CASCADE",
    "a policy that runs": "CREATE FUNCTION mpnanny.wait() RETURNS boolean LANGUAGE sql AS"
    " $$ SELECT count(*) > 0 FROM pg_sleep(99) $$; ALTER TABLE mpnanny.part ENABLE ROW LEVEL"
    " SECURITY; ALTER TABLE mpnanny.part FORCE ROW LEVEL SECURITY; CREATE POLICY slow ON"
    " mpnanny.part USING (mpnanny.wait())",
    "nothing known": "UPDATE mpnanny.run SET precision=NULL, environment=NULL, heartbeat_at=NULL;"
    " UPDATE mpnanny.step SET at=NULL, duration=NULL, loss=NULL, lr=NULL, grad_norm=NULL;"
    " UPDATE mpnanny.alert SET phase=NULL, layer_id=NULL, detail=NULL",
    "not JSON": "UPDATE mpnanny.run SET environment='{', notes='[[[';"
    " UPDATE mpnanny.shadow_finding SET detail='nothing', cure='{{', reach='[1';"
    " UPDATE mpnanny.alert SET detail='}'",
    "control characters": "UPDATE mpnanny.run SET name=E'\\x1b[31m\\n# \\u202e';"
    " UPDATE mpnanny.layer SET name=E'\\x1b]0;\\x07' || layer_id;"
    " UPDATE mpnanny.alert SET message=E'\\x1b[2J', type=E'\\x1b'",
    "numbers at their ends": "UPDATE mpnanny.alert SET last_step=9223372036854775807,"
    " repeats=-9223372036854775808, layer_id=9223372036854775807;"
    " UPDATE mpnanny.step SET loss='Infinity', lr='NaN', flags=-1, peak_memory=9223372036854775807;"
    " UPDATE mpnanny.shadow_finding SET layer_id=-1, error_out='NaN'",
    "ids that are too large": "UPDATE mpnanny.alert SET alert_id=alert_id + 9223372036854775000",
    "no rank": "DELETE FROM mpnanny.run",
    "ranks that have no part": "DELETE FROM mpnanny.part",
    "a negative rank": "UPDATE mpnanny.run SET rank=-2147483648 WHERE rank=1",
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_content_is_data(shipped: Team, change: str) -> None:
    """Each tool answers or says what is wrong; none crashes, hangs, or passes on what it reads."""
    shipped.sql(change)
    for tool, key, more in [
        *TOOLS,
        ("query_stats", "run", {"metric": "findings"}),
        ("query_stats", "run", {"metric": "absmax", "layers": ["*"], "aggregate": "ranks"}),
        ("query_alerts", "run", {"layer": "*"}),
    ]:
        words = {key: shipped.url(), **more}
        answer = call(tool, words, shipped.url(), code=None, limit=30)
        assert "\x1b" not in str(answer) and "\u202e" not in str(answer)
        if error := answer.get("error"):
            assert error["kind"] in ("DataCorrupt", "NotFound", "InvalidInput", "Unavailable"), (
                error
            )


def test_texts_without_an_end_are_cut(shipped: Team) -> None:
    """A gigabyte of text would be the memory of who reads it."""
    shipped.sql(
        "DROP INDEX mpnanny.layer_by_name;"
        " UPDATE mpnanny.layer SET name=repeat('x', 12000000) || layer_id;"
        " UPDATE mpnanny.run SET name=repeat('y', 12000000);"
        " UPDATE mpnanny.alert SET message=repeat('z', 12000000), detail=repeat('[', 12000000)"
    )
    for tool, key, more in TOOLS:
        peak = memory_of(tool, {key: shipped.url(), **more}, shipped.url())
        assert peak < 150 << 20, tool


def memory_of(tool: str, arguments: dict, *roots: object) -> int:
    """Bytes that the process of this call had at most."""
    words = [str(PROGRAM), "call", tool, "--args", json.dumps(arguments)]
    for root in roots:
        words += ["--root", str(root)]
    script = (
        "import resource, subprocess, sys;"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, timeout=60);"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
    )
    code, kilobytes = done.stdout.split()
    assert code in ("0", "2"), done.stderr
    return int(kilobytes) * 1024
