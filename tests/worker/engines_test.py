"""The worker's engine against the one for models in Python: the same model, the same inputs, the
same answer.
"""

from __future__ import annotations

import inspect
import json
import pathlib
import sys
from typing import Any

import engine_models
import pytest
import torch
from asking import HERE, diff, run
from exported import scripted
from torch import nn

WORDS = ["float32[64,128]~normal(0,1)"]
MODELS = [
    name
    for name, each in inspect.getmembers(engine_models, inspect.isclass)
    if issubclass(each, nn.Module) and each.__module__ == engine_models.__name__
]


# A model that has left Python has no backward pass.
TARGET = """
import sys

import torch

sys.path.insert(0, {folder!r})
import engine_models


class Target(engine_models.{name}):
    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)
"""


def in_python(name: str, dtype: str, folder: pathlib.Path) -> dict[str, Any]:
    target = folder / "target.py"
    target.write_text(TARGET.format(folder=str(HERE), name=name))
    code, out, err = run(
        *("diff", "--model", f"{target}:Target", "--input", WORDS[0]),
        *("--dtype", dtype, "--policy", "pure", "--format", "json", "--python", sys.executable),
    )
    assert code in (0, 1), err
    return json.loads(out)


def exported(name: str, how: str, folder: pathlib.Path) -> pathlib.Path:
    model = getattr(engine_models, name)().eval()
    file = folder / f"{name}.{how}"
    if how == "pt":
        torch.jit.save(scripted(model), str(file))
    else:
        torch.export.save(torch.export.export(model, (torch.randn(64, 128),)), str(file))
    return file


def first(answer: dict[str, Any]) -> tuple[str, ...]:
    """Of the first finding: operator, what it is, line."""
    found = answer.get("first_bad") or {}
    operator = ".".join(found.get("op", "").split(".")[:2])
    return operator, found.get("what", ""), pathlib.Path(found.get("source", "")).name


def summary(answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "verdict": answer["verdict"],
        "first": first(answer),
        "gets to": sorted({each["what"] for each in (answer.get("first_bad") or {}).get("reaches", [])}),
        "in FP32 as well": sorted(each["kind"] for each in answer["ill_conditioned"]),
    }


@pytest.mark.parametrize("how", ["pt", "pt2"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("name", MODELS)
def test_both_engines_say_the_same(name, dtype, how, tmp_path, worker):
    _, found, err = diff(exported(name, how, tmp_path), WORDS, dtype, "pure")
    assert found, err
    assert summary(found) == summary(in_python(name, dtype, tmp_path))
