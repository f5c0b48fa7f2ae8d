"""What the tests of auto_diff take from those of the monitor: its models. --slow: also what takes
long.
"""

from __future__ import annotations

import contextlib
import pathlib
import sys

import pytest

# Its first import takes seconds, and the time limit of a trial could end it halfway.
import torch._dynamo  # noqa: F401

HERE = pathlib.Path(__file__).parent
for folder in (HERE.parent / "monitor", HERE):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def pytest_addoption(parser):
    with contextlib.suppress(ValueError):  # another suite of the same run has it
        parser.addoption("--slow", action="store_true", help="also what takes long")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes long; runs with --slow")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes long: --slow"))
