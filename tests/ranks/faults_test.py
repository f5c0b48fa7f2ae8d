"""Whatever happens to the server, the network or the shipper: an error that says what to try, and
in the end every row once.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator

import postgres
import pytest
from conftest import PROGRAM, Team, make_team, ran
from recording import Recording

STEPS = 40  # rounds of a training that is recorded meanwhile


class Training(threading.Thread):
    """Records as a training does, some steps at a time, whatever the shipper does."""

    def __init__(self, path: pathlib.Path, seconds: float) -> None:
        super().__init__()
        self.recording = Recording(path)
        self.recording.describe()
        self._seconds = seconds
        self.start()

    def run(self) -> None:
        for i in range(STEPS):
            self.recording.steps(random.randrange(1, 30))
            if i % 5 == 0:
                self.recording.alert(self.recording.next)
                self.recording.event(self.recording.next)
            self.recording.db.execute("UPDATE alert SET repeats=repeats+1 WHERE alert_id%2=0")
            time.sleep(self._seconds / STEPS)
        self.recording.close()


def ended(follower: subprocess.Popen[str], seconds: float = 60) -> str:
    """What it said, once it has ended by itself and found everything shipped."""
    said, _ = follower.communicate(timeout=seconds)
    assert follower.returncode == 0, said
    return said


def until(condition, seconds: float = 30) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_follower_ends_with_the_run(team: Team, tmp_path: pathlib.Path) -> None:
    follower = team.follow(tmp_path / "metrics.db")  # which does not exist yet
    time.sleep(0.3)
    training = Training(tmp_path / "metrics.db", 2)
    said = ended(follower)
    training.join()
    assert f"train is {team.url()}"[:20] in said and "all is there" in said
    assert not team.differences(training.recording)


def test_shippers_killed_at_random_moments(team: Team, tmp_path: pathlib.Path) -> None:
    seed = int(os.environ.get("MPNANNY_SEED", time.time()))
    random.seed(seed)
    training = Training(tmp_path / "metrics.db", 5)
    kills = 0
    while training.is_alive():
        follower = team.follow(training.recording.path)
        time.sleep(random.uniform(0.02, 0.5))
        if follower.poll() is None:
            follower.send_signal(signal.SIGKILL)
            kills += 1
        follower.communicate()
    ended(team.follow(training.recording.path))
    assert kills >= 5
    assert not team.differences(training.recording), f"MPNANNY_SEED={seed}"


def test_a_follower_that_is_stopped_ships_the_last_rows(team: Team, tmp_path: pathlib.Path) -> None:
    recording = Recording(tmp_path / "metrics.db")
    recording.describe()
    recording.steps(5)
    for sent in (signal.SIGTERM, signal.SIGINT):
        follower = team.follow(recording.path)
        until(lambda: team.number("SELECT count(*) FROM mpnanny.step") == recording.next)
        recording.steps(5)
        follower.send_signal(sent)
        said = ended(follower, 10)
        assert "all that is written so far is there" in said
        assert not team.differences(recording)
    recording.close()


def test_a_server_killed_and_started_again(own_team: Team, tmp_path: pathlib.Path) -> None:
    training = Training(tmp_path / "metrics.db", 6)
    follower = own_team.follow(training.recording.path)
    for _ in range(3):
        time.sleep(random.uniform(0.5, 1))
        own_team.server.stop("immediate")
        time.sleep(random.uniform(0.1, 1))
        own_team.server.start()
    training.join()
    said = ended(follower)
    assert not own_team.differences(training.recording), said
    assert "It is tried again until it works" in said and "takes rows again" in said
    # Once each time, not at each trial.
    assert said.count("tried again") <= 6


def test_a_server_that_is_away_from_the_beginning(own_team: Team, tmp_path: pathlib.Path) -> None:
    own_team.server.stop()
    recording = Recording(tmp_path / "metrics.db")
    recording.steps(5)
    recording.close()
    said = own_team.ship(recording.path, code=2)
    assert "cannot be reached" in said and "pg_isready" in said
    follower = own_team.follow(recording.path)
    time.sleep(1)
    own_team.server.start()
    assert "tried again" in ended(follower)
    assert not own_team.differences(recording)


def test_a_full_server_says_so_and_takes_rows_later(team: Team, tmp_path: pathlib.Path) -> None:
    """By a trigger that raises the server's own error of a full disk."""
    training = Training(tmp_path / "metrics.db", 3)
    follower = team.follow(training.recording.path)
    until(lambda: team.number("SELECT count(*) FROM mpnanny.step") > 0)
    team.sql("""
        CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          RAISE EXCEPTION 'could not extend file: No space left on device'
            USING ERRCODE = 'disk_full'; END $$;
        CREATE TRIGGER full_disk BEFORE INSERT ON mpnanny.step EXECUTE FUNCTION full_disk()""")
    training.join()
    time.sleep(0.5)
    assert "is full" in team.ship(training.recording.path, code=2)
    team.sql("DROP TRIGGER full_disk ON mpnanny.step")
    said = ended(follower)
    assert "is full" in said and "--thin" in said
    assert not team.differences(training.recording)


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[pathlib.Path]:
    folder = pathlib.Path("/tmp") / f"mpnanny-small-{os.getpid()}"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=777", "tmpfs", str(folder)]
    try:
        if subprocess.run(words, capture_output=True, check=False).returncode != 0:
            pytest.skip("this user may not mount a small disk")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)
    finally:
        folder.rmdir()


def test_a_disk_that_is_really_full(tmp_path: pathlib.Path) -> None:
    if reason := postgres.missing():
        pytest.skip(reason)
    with small_disk(24) as disk, postgres.running() as server:
        place = disk / "space"
        place.mkdir()
        shutil.chown(place, server.data.owner())
        team = make_team(server)
        server.sql(f"CREATE TABLESPACE small LOCATION '{place}'")
        server.sql(f"ALTER DATABASE {team.database} SET default_tablespace = small")
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(shutil.disk_usage(disk).free - (1 << 20)))
        recording = Recording(tmp_path / "metrics.db")
        recording.describe(100)
        recording.steps(400, sample=4)
        recording.close()
        assert "is full" in team.ship(recording.path, code=2)
        follower = team.follow(recording.path)
        time.sleep(1)
        ballast.unlink()
        said = ended(follower)
        assert "is full" in said and "No space left" in said
        assert not team.differences(recording)


@pytest.mark.slow
def test_a_slow_server_holds_up_nothing(team: Team, tmp_path: pathlib.Path) -> None:
    training = Training(tmp_path / "metrics.db", 3)
    follower = team.follow(training.recording.path)
    until(lambda: team.number("SELECT count(*) FROM mpnanny.step") > 0)
    held = team.server.hold("BEGIN; LOCK TABLE mpnanny.step IN EXCLUSIVE MODE;", team.database)
    training.join(60)
    assert not training.is_alive()  # while nobody takes its rows
    # Told to stop, it does not wait for ever.
    other = team.follow(training.recording.path)
    time.sleep(1)
    other.send_signal(signal.SIGTERM)
    said, _ = other.communicate(timeout=60)
    assert other.returncode == 1 and "ships the rest: mpnanny ship" in said
    assert follower.poll() is None
    held.communicate(b"COMMIT;\n")
    ended(follower)
    assert not team.differences(training.recording)


def test_a_wrong_password(own_team: Team, tmp_path: pathlib.Path) -> None:
    recording = Recording(tmp_path / "metrics.db")
    recording.describe()
    recording.steps(5)
    own_team.sql(f"ALTER ROLE {postgres.OWNER} PASSWORD 'right'")
    follower = own_team.follow(recording.path)
    until(lambda: own_team.number("SELECT count(*) FROM mpnanny.step") == 5)
    own_team.server.set_access("local all all scram-sha-256")
    recording.steps(5)
    for password in ("wrong", ""):
        said = ran(
            "ship",
            recording.path,
            "--to",
            own_team.url(),
            code=2,
            environment={"PGPASSWORD": password},
        )
        assert "does not let this user in" in said and ".pgpass" in said and "wrong" not in said
    # In the middle: whoever is in stays in, who comes again is not let in.
    own_team.server.stop()
    own_team.server.start()
    time.sleep(1.5)
    own_team.server.set_access("local all all trust")
    recording.close()
    said = ended(follower)
    assert "does not let this user in" in said
    assert not own_team.differences(recording)


def test_a_password_in_the_url_is_refused(tmp_path: pathlib.Path) -> None:
    for url in ("postgresql://a:secret@h/db", "postgresql://h/db?password=secret"):
        said = ran("ship", tmp_path, "--to", url, code=2)
        assert "PGPASSWORD" in said and "secret" not in said
        said = ran("run", "--ship", url, "--", "true", code=2)
        assert "PGPASSWORD" in said and "secret" not in said


def test_another_layout(team: Team, tmp_path: pathlib.Path) -> None:
    recording = Recording(tmp_path / "metrics.db")
    recording.describe()
    recording.steps(5)
    follower = team.follow(recording.path)
    until(lambda: team.number("SELECT count(*) FROM mpnanny.step") == 5)
    team.sql("UPDATE mpnanny.version SET version=2")
    recording.steps(5)
    recording.close()
    said = team.ship(recording.path, code=2)
    assert "layout version 2" in said and "update this one" in said
    assert "layout version 2" in ran("ship", "--setup", team.url(), code=2)
    time.sleep(0.5)
    assert follower.poll() is None
    assert team.number("SELECT count(*) FROM mpnanny.step") == 5
    team.sql("UPDATE mpnanny.version SET version=1")
    assert "layout version 2" in ended(follower)
    assert not team.differences(recording)


def test_a_database_without_tables(server: postgres.Postgres, tmp_path: pathlib.Path) -> None:
    recording = Recording(tmp_path / "metrics.db")
    recording.close()
    said = ran("ship", recording.path, "--to", server.url(), code=2)
    assert "no tables of mpnanny" in said and "--setup" in said
    said = ran("ship", recording.path, "--to", server.url(database="nowhere"), code=2)
    assert "no such database" in said


@pytest.mark.slow
def test_a_network_that_answers_nothing(tmp_path: pathlib.Path) -> None:
    recording = Recording(tmp_path / "metrics.db")
    recording.close()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/db"
        assert "did not answer within 10 s" in ran("ship", recording.path, "--to", url, code=2)


@pytest.mark.parametrize("library", ["missing"])
def test_a_machine_without_libpq(tmp_path: pathlib.Path, library: str) -> None:
    """A loader that finds another file under the library's name stands for a machine without it."""
    (tmp_path / "libpq.so.5").write_text(library)
    recording = Recording(tmp_path / "metrics.db")
    recording.close()
    said = ran(
        "ship",
        recording.path,
        "--to",
        "postgresql://localhost/db",
        code=2,
        environment={"LD_LIBRARY_PATH": str(tmp_path)},
    )
    assert "apt-get install libpq5" in said


def test_a_writer_adds_and_a_reader_reads(team: Team, tmp_path: pathlib.Path) -> None:
    team.sql("""
        DO $$ BEGIN CREATE ROLE anna LOGIN; CREATE ROLE ben LOGIN;
        EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        GRANT mpnanny_writer TO anna; GRANT mpnanny_reader TO ben""")
    recording = Recording(tmp_path / "metrics.db")
    recording.describe()
    recording.steps(30)
    recording.alert(4)
    team.ship(recording.path, user="anna")
    recording.steps(30)
    recording.db.execute("UPDATE alert SET repeats=7")
    recording.close()
    team.ship(recording.path, user="anna")
    assert not team.differences(recording)
    refused = [
        "DELETE FROM mpnanny.step",
        "UPDATE mpnanny.step SET loss=0",
        "UPDATE mpnanny.tensor_stats SET absmax=0",
        "TRUNCATE mpnanny.tensor_stats",
        "DROP TABLE mpnanny.step_1",
        "DELETE FROM mpnanny.step_1",
        "DELETE FROM mpnanny.training",
        "UPDATE mpnanny.run SET run_id=5",
        "UPDATE mpnanny.version SET version=3",
        "CREATE TABLE mpnanny.mine (i int)",
    ]
    for statement in refused:
        done = team.server.psql(statement, "anna", team.database)
        assert b"permission denied" in done.stderr or b"must be owner" in done.stderr, statement
    assert team.sql("SELECT count(*) FROM mpnanny.step", "ben") == [["60"]]
    for statement in [*refused, "INSERT INTO mpnanny.version VALUES (1)"]:
        done = team.server.psql(statement, "ben", team.database)
        assert b"permission denied" in done.stderr or b"must be owner" in done.stderr, statement
    said = team.ship(recording.path, user="ben", code=2)
    assert "this user may not do that" in said and "mpnanny_writer" in said
    done = ran("ship", "--drop", f"{team.url('anna')}#1", code=2)
    assert "the tables' owner" in done


def test_a_file_that_is_no_database_is_told(team: Team, tmp_path: pathlib.Path) -> None:
    good = Recording(tmp_path / "good.db")
    good.steps(5)
    good.close()
    (tmp_path / "bad.db").write_bytes(good.path.read_bytes()[:5000])
    said = team.ship(tmp_path, code=1)
    assert "bad.db" in said
    assert not team.differences(good)


def test_the_program_starts_without_the_library() -> None:
    """Nothing is linked."""
    linked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert "libpq" not in linked
