"""Asks the program."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAM = pathlib.Path(os.environ.get("MPNANNY_PROGRAM", ROOT / "build/release/bin/mpnanny"))
sys.path.insert(0, str(HERE))

Answer = dict[str, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also what takes long")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes long; runs with --slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes long: --slow"))


@pytest.fixture
def mismatch() -> Callable[..., Answer]:
    """The answer of `mpnanny mismatch …`; `code`: how it has to end (None: as it likes)."""

    def asked(*words: object, code: int | None = None) -> Answer:
        done = subprocess.run(
            [PROGRAM, "mismatch", *map(str, words), "--format", "json"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert code is None or done.returncode == code, done.stdout + done.stderr
        if done.returncode == 2:
            return {"error": done.stderr}
        return json.loads(done.stdout)

    return asked
