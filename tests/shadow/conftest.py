"""What the tests of shadow steps take from those of the monitor: its trainings and its database."""

from __future__ import annotations

import contextlib
import pathlib
import sys
from collections.abc import Callable

import pytest
import torch
from mpnanny import MixedPrecisionNanny
from torch import nn

HERE = pathlib.Path(__file__).parent
for folder in (HERE.parent / "fork_server", HERE.parent / "monitor", HERE):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

from conftest import Database, database, db, forget_compilations, stand_in, wheels  # noqa: E402
from finds import Finds  # noqa: E402

__all__ = ["database", "db", "forget_compilations", "stand_in", "wheels"]


def pytest_addoption(parser: pytest.Parser) -> None:
    with contextlib.suppress(ValueError):  # the monitor's tests are in the same session
        parser.addoption("--slow", action="store_true", help="also what takes long")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes long; runs with --slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes long: --slow"))


@pytest.fixture
def train(db: str, database: Callable[[], Database]) -> Callable[..., Finds]:
    """Trains `model` on the losses of `loss_of(step)` and answers what was found."""

    def run(
        model: nn.Module,
        loss_of: Callable[[int], torch.Tensor],
        steps: int = 4,
        optimizer: torch.optim.Optimizer | None = None,
        shadow: str = "every=1",
        update: Callable[[], None] | None = None,
    ) -> Finds:
        descent = optimizer
        if descent is None and update is None:
            descent = torch.optim.SGD(model.parameters(), lr=1e-3)
        with MixedPrecisionNanny(model, db=db, shadow=shadow, quiet=True) as nanny:
            for step in range(steps):
                # Where the weights are updated by hand, it is the program that says what a step is.
                with contextlib.nullcontext() if update is None else nanny.step(step):
                    model.zero_grad()
                    loss_of(step).backward()
                    descent.step() if update is None else update()
        found = Finds(database())
        assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
        return found

    torch.manual_seed(0)
    return run
