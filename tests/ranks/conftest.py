"""Servers, databases in them, and the program that ships."""

from __future__ import annotations

import itertools
import os
import pathlib
import subprocess
from collections.abc import Iterator

import postgres
import pytest
from recording import Recording, differences

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("MPNANNY_PROGRAM", ROOT / "build/release/bin/mpnanny"))
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also what takes long")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes long; runs with --slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes long: --slow"))


class Team:
    """One database with the layout in it, and who ships into it."""

    def __init__(self, server: postgres.Postgres, database: str) -> None:
        self.server = server
        self.database = database

    def url(self, user: str = postgres.OWNER) -> str:
        return self.server.url(user, self.database)

    def sql(self, text: str, user: str = postgres.OWNER) -> list[list[str]]:
        return self.server.sql(text, user, self.database)

    def number(self, text: str) -> int:
        return int(self.sql(text)[0][0])

    def ship(self, *words: object, user: str = postgres.OWNER, code: int | None = 0) -> str:
        """`mpnanny ship … --to` this database; what it says on both streams."""
        return ran("ship", *words, "--to", self.url(user), code=code)

    def follow(self, *words: object, user: str = postgres.OWNER) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, "ship", *map(str, words), "--to", self.url(user)]
            + ["--follow", "--interval", "0.05"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def differences(self, recording: Recording, training: int = 1, rank: int = 0) -> list[str]:
        return differences(
            self.server, recording.path, training, rank, recording.run, self.database
        )


def ran(*words: object, code: int | None = 0, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [PROGRAM, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    if code is not None:
        assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def make_team(server: postgres.Postgres) -> Team:
    database = f"team{next(_numbers)}"
    server.sql(f"CREATE DATABASE {database}")
    team = Team(server, database)
    ran("ship", "--setup", team.url())
    return team


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Postgres]:
    if reason := postgres.missing():
        pytest.skip(reason)
    with postgres.running() as running:
        yield running


@pytest.fixture
def team(server: postgres.Postgres) -> Team:
    return make_team(server)


@pytest.fixture
def own_team() -> Iterator[Team]:
    """On a server that the test may stop, spoil and start."""
    if reason := postgres.missing():
        pytest.skip(reason)
    with postgres.running() as running:
        yield make_team(running)
