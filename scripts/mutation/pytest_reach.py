"""A pytest plugin with two uses, told by the environment.

MUTATE_REACH=OUT: traces one file, MUTATE_FILE, and writes to OUT as JSON, for every test, the lines
of the file that it ran, its time and whether it passed.
MUTATE_ORDER=IN: runs the tests that IN lists (JSON, ids), in that order.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

FILE = os.environ.get("MUTATE_FILE", "")
REACH = os.environ.get("MUTATE_REACH", "")
ORDER = os.environ.get("MUTATE_ORDER", "")
tests: dict[str, dict[str, Any]] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not ORDER:
        return
    with open(ORDER) as order:
        rank = {test: i for i, test in enumerate(json.load(order))}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in rank])
    items[:] = sorted((i for i in items if i.nodeid in rank), key=lambda i: rank[i.nodeid])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if not REACH:
        yield
        return
    lines: set[int] = set()

    def in_file(frame: FrameType, event: str, argument: object) -> Any:
        lines.add(frame.f_lineno)
        return in_file

    def called(frame: FrameType, event: str, argument: object) -> Any:
        return in_file(frame, event, argument) if frame.f_code.co_filename == FILE else None

    start = time.monotonic()
    threading.settrace(called)
    sys.settrace(called)
    yield
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    test = tests.setdefault(item.nodeid, {"passed": True})
    test |= {"path": str(item.path), "seconds": time.monotonic() - start, "lines": sorted(lines)}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if REACH and not report.passed:  # skipped ones kill nothing either
        tests.setdefault(report.nodeid, {})["passed"] = False


def pytest_sessionfinish() -> None:
    if REACH:
        with open(REACH, "w") as out:
            json.dump(tests, out)
