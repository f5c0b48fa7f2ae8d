"""The demo's training, until its loss is NaN: recorded once for all that asks about it."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys
from types import ModuleType

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def conversation() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "conversation", ROOT / "scripts" / "conversation.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["conversation"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def broken_folder(
    conversation: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """Its recording is nanny_logs/metrics.db."""
    folder: pathlib.Path = tmp_path_factory.mktemp("broken")
    printed = [json.loads(line) for line in conversation.train(folder).splitlines()]
    assert printed[0]["loss"] == printed[0]["loss"] and printed[0]["scale"] == 65536
    assert printed[-1]["loss"] != printed[-1]["loss"], "the loss should have become NaN"
    return folder
