from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from confined import Place  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    with contextlib.suppress(ValueError):  # other tests of the session have it
        parser.addoption("--slow", action="store_true", help="also what takes long")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes long; runs with --slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes long: --slow"))


@pytest.fixture(scope="session")
def place():
    made = Place()
    yield made
    made.remove()


@pytest.fixture
def user_namespaces() -> None:
    """Skips where the machine itself refuses them (a chroot, most containers): there the sandbox
    refuses to run for an ordinary user, which test_what_is_weaker_is_refused looks at.
    """
    if subprocess.run(["unshare", "--user", "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine has no user namespaces")
