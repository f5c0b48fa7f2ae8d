"""Real trainings, real databases: what the tests of the monitor share."""

from __future__ import annotations

import os
import pathlib
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

sys.path.append(str(pathlib.Path(__file__).parents[1] / "fork_server"))

import pytest
import torch
from forked_python import forked_python
from mpnanny import MixedPrecisionNanny
from mpnanny.base import device_kernels, later
from mpnanny.base.device_kernels import KERNELS, DeviceKernels
from mpnanny.steps import late_steps
from torch import nn

torch.set_num_threads(1)

# Shadow steps are on by default and have tests of their own (tests/shadow): the alerts that
# are counted here are those of samples. `shadow` is the last option.
MixedPrecisionNanny.__init__.__defaults__ = (*MixedPrecisionNanny.__init__.__defaults__[:-1], "off")

PACKAGE = pathlib.Path(__import__("mpnanny").__file__).parent.parent


class Mlp(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.enter = nn.Linear(8, width)
        self.act = nn.ReLU()
        self.middle = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)
        self.leave = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.enter(x))
        x = x + self.drop(self.middle(x))
        return self.leave(x)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(16, 8), torch.randint(0, 3, (16,))


def cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output.float(), target)


class Database:
    """A finished run, read with Python's own sqlite3."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.connection = sqlite3.connect(path)
        self.connection.row_factory = sqlite3.Row

    def rows(self, sql: str, *arguments: Any) -> list[dict[str, Any]]:
        return [dict(row) for row in self.connection.execute(sql, arguments)]

    def one(self, sql: str, *arguments: Any) -> dict[str, Any]:
        rows = self.rows(sql, *arguments)
        assert len(rows) == 1, rows
        return rows[0]

    def alerts(self, **where: Any) -> list[dict[str, Any]]:
        clauses = " AND ".join(f"a.{key} IS ?" for key in where) or "1"
        return self.rows(
            "SELECT a.*, l.name AS layer, l.source FROM alert a LEFT JOIN layer l USING (layer_id)"
            f" WHERE {clauses} ORDER BY alert_id",
            *where.values(),
        )


@pytest.fixture(autouse=True)
def forget_compilations() -> Iterator[None]:
    """A process that has compiled something is not traced any more: for each test anew."""
    yield
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()


@pytest.fixture
def database(tmp_path: pathlib.Path) -> Callable[[], Database]:
    return lambda: Database(tmp_path / "metrics.db")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder of wheels that has the stand-in for NVRTC (tests/device/stand_in)."""
    folder = tmp_path_factory.mktemp("wheels")
    library = folder / "nvidia" / "cuda_nvrtc" / "lib"
    library.mkdir(parents=True)
    (library / "libnvrtc.so.12").symlink_to(PACKAGE.parent / "libmpn_stand_in_nvrtc.so")
    return folder


@pytest.fixture
def stand_in(wheels: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> DeviceKernels:
    """The device kernels on the stand-in for CUDA's driver, for all runs of this process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(wheels / "cache"))
    driver = PACKAGE.parent / "libmpn_stand_in_driver.so"
    kernels = DeviceKernels([str(wheels)], str(driver))
    kernels.compile(KERNELS, 90)
    end = time.monotonic() + 30
    while not kernels.why and not all(kernels.is_ready(each, 90) for each in KERNELS):
        assert time.monotonic() < end
        time.sleep(0.001)
    assert not kernels.why
    monkeypatch.setattr(device_kernels, "kernels_of_process", lambda: kernels)
    return kernels


@pytest.fixture(params=[0, 2], ids=["here", "device"])
def lag(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, stand_in: DeviceKernels
) -> int:
    """Twice: tensors that are read where they lie, and as those of a device, by the device kernels,
    whose answers come so many steps late.
    """
    if request.param:
        sent, send = [], later.Mail.send
        for module in (later, late_steps):
            monkeypatch.setattr(module, "HOST", set())
            monkeypatch.setattr(module, "DEVICES", {"cuda", "cpu"})
        monkeypatch.setattr(later.Mail, "send", lambda self: (sent.append(self), send(self)))
        monkeypatch.setattr(later.Mail, "arrived", lambda self: self not in sent[-2:])
    return request.param


@pytest.fixture
def db(tmp_path: pathlib.Path) -> str:
    return str(tmp_path / "metrics.db")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also what takes long")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes long; runs with --slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes long: --slow"))


def python(
    script: str,
    *arguments: str,
    launcher: Sequence[str] = (),
    interpreter: Sequence[str] = (sys.executable,),
    **options: Any,
) -> subprocess.Popen[str]:
    """A training in a process of its own, for what ends a process. `launcher` is a command that
    runs the command after it.
    """
    return subprocess.Popen(
        [*launcher, *interpreter, "-c", textwrap.dedent(script), *arguments],
        env={**os.environ, "PYTHONPATH": f"{PACKAGE}:{pathlib.Path(__file__).parent}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def forked(script: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """The same, of a Python that has imported torch: where it does not matter how a process starts
    and what its end takes down.
    """
    return python(script, *arguments, interpreter=forked_python(), **options)
