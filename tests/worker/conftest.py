"""What the tests of the worker take from others: models, planted faults; and files of them."""

from __future__ import annotations

import pathlib
import sys

import pytest
import torch

HERE = pathlib.Path(__file__).parent
for folder in (HERE.parent / "monitor", HERE.parent / "auto_diff", HERE):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

torch.set_num_threads(1)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also what takes minutes to export")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes long; runs with --slow")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes a minute to export: --slow"))


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A folder for exported models, the same for the whole session."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def worker():
    """Skips where the worker was not built: without torch it is left out."""
    from asking import WORKER

    if not WORKER.exists():
        pytest.skip("built without torch: mpnanny-worker was left out")
