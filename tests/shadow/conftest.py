"""What the tests of shadow steps take from those of the monitor: its trainings and its database."""

from __future__ import annotations

import contextlib
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
for folder in (HERE.parent / "monitor", HERE):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

from conftest import database, db, forget_compilations  # noqa: E402

__all__ = ["database", "db", "forget_compilations"]


def pytest_addoption(parser: pytest.Parser) -> None:
    with contextlib.suppress(ValueError):  # the monitor's tests are in the same session
        parser.addoption("--slow", action="store_true", help="also what takes long")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes long; runs with --slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes long: --slow"))
