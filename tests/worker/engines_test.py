"""The worker's engine against the one for models in Python: the same model, the same inputs, the
same answer.

    python tests/worker/engines_test.py --table [--only a03]

asks both about the labelled programs of tests/auto_diff, and prints where they differ.
"""

from __future__ import annotations

import argparse
import inspect
import json
import pathlib
import sys
import tempfile
from collections import Counter
from typing import Any

if __name__ == "__main__":
    import conftest  # noqa: F401  where the models are found

import engine_models
import pytest
import torch
from asking import HERE, diff, inputs, run
from exported import scripted
from planted_cases import CASES, FORMATS, words_of, write
from torch import nn

# What Python calls runs as another operator below.
SAME = {
    "aten.to": "aten._to_copy",
    "aten.fake_quantize_per_tensor_affine": "aten.fake_quantize_per_tensor_affine_cachemask",
}
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
{imports}

class Target(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.target = {made}

    def forward(self, *args, **kwargs):
        with torch.no_grad():
            return self.target(*args, **kwargs)
"""


def in_python(
    made: str, imports: str, words: list[str], dtype: str, policy: str, folder: pathlib.Path
) -> dict[str, Any]:
    """The answer about the model that the expression `made` makes."""
    target = folder / "target.py"
    target.write_text(TARGET.format(folder=str(HERE), made=made, imports=imports))
    code, out, err = run(
        *("diff", "--model", f"{target}:Target", *inputs(words), "--python", sys.executable),
        *("--dtype", dtype, "--policy", policy, "--format", "json"),
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
    line = pathlib.Path(found.get("source", "")).name
    return SAME.get(operator, operator), found.get("what", ""), line


def summary(answer: dict[str, Any]) -> dict[str, Any]:
    reaches = (answer.get("first_bad") or {}).get("reaches", [])
    return {
        "verdict": answer["verdict"],
        "first": first(answer),
        "gets to": sorted({each["what"] for each in reaches}),
        "cured": "cure" in answer,
        "in FP32 as well": sorted(each["kind"] for each in answer["ill_conditioned"]),
    }


@pytest.mark.parametrize("how", ["pt", "pt2"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("name", MODELS)
def test_both_engines_say_the_same(name, dtype, how, tmp_path, worker):
    _, found, err = diff(exported(name, how, tmp_path), WORDS, dtype, "pure")
    assert found, err
    theirs = in_python(
        f"engine_models.{name}()", "import engine_models", WORDS, dtype, "pure", tmp_path
    )
    assert summary(found) == summary(theirs)


def table(only: str, folder: pathlib.Path) -> None:
    """Cases whose file holds what the label means."""
    counts: Counter[str] = Counter()
    for case in CASES.values():
        if case.skip or only not in case.name:
            continue
        try:
            theirs = in_python(
                f"planted_cases.CASES[{case.name!r}].make()",
                "import conftest, planted_cases",
                words_of(case),
                case.dtype,
                case.policy,
                folder,
            )
        except Exception as error:
            print(f"{case.name:36} not in Python: {str(error)[:200]}", flush=True)
            continue
        for form in FORMATS:
            if case.baked(form):
                continue
            _, found, err = diff(write(case, form, folder), words_of(case), case.dtype, case.policy)
            ours = found["verdict"] if found else err.strip()[:100]
            of_verdict = ours == theirs["verdict"]
            of_line = first(found)[2] == first(theirs)[2]
            counts[f"{form}, all"] += 1
            counts[f"{form}, same verdict"] += of_verdict
            counts[f"{form}, same verdict and line"] += of_verdict and of_line
            if not of_verdict or not of_line:
                print(
                    f"{case.name:36} {form:4} {ours:9} {first(found)}, in Python"
                    f" {theirs['verdict']:9} {first(theirs)}",
                    flush=True,
                )
    print(json.dumps(counts, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="the default, and all there is")
    parser.add_argument("--only", default="", help="part of the names of cases")
    with tempfile.TemporaryDirectory() as made:
        table(parser.parse_args().only, pathlib.Path(made))
