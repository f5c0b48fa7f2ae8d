"""The labelled programs of tests/auto_diff as exported models: which, and how they are written so
that the file tells the lines of the original.
"""

from __future__ import annotations

import ast
import functools
import json
import pathlib
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import healthy
import planted
import torch
from exported import Write, arguments, program, script, trace
from mpnanny.programs.target import find_target
from torch import Tensor, nn

FOLDER = pathlib.Path(planted.__file__).parent
FORMATS = ("pt", "pt2")  # what is judged; "script", "trace" and "strict" can be asked for by name


@dataclass(frozen=True)
class Case:
    """One label. `program`: the name of what is exported, the same for both dtypes. `skip`: why it
    says nothing about a forward pass.
    """

    name: str
    program: str
    file: pathlib.Path
    make: Callable[[], Any] = field(repr=False)
    words: list[str]
    dtype: str
    policy: str
    lines: frozenset[int] = frozenset()
    skip: str = ""

    @property
    def healthy(self) -> bool:
        return not self.lines

    def baked(self, form: str) -> bool:
        """Whether the format does not hold what the label is about."""
        traced = form != "script" and (form != "pt" or self.program in NOT_SCRIPTED)
        return traced and self.program in BAKED


# Models that a function makes anew at each call: exported is the model.
MADE_INSIDE: dict[str, type[nn.Module]] = {
    "overflowing_model": planted.Scaled,
    "deep_residual": healthy.Deep,
}
BACKWARD = "the fault is in the backward pass, an exported program has none"
# Not in TorchScript, so traced.
NOT_SCRIPTED = {
    "planted_a:a01",  # a tensor unpacked
    "planted_a:a14",  # a norm without an order; columns unpacked
    "planted_a:a15",  # a tensor unpacked
    "planted_a:a20",  # reversed(range(…))
    "planted_b:b07",  # a norm without an order
    "planted_b:b16",  # torch.finfo
    "planted_b:b17",  # a default that is a float, without a type
    "planted_b:b18",  # the same
    "healthy:mask_of_the_format",  # torch.finfo
    "healthy:mask_of_a_large_number",  # torch.finfo
    "healthy:whole_numbers_as_features",  # a module made in a function
    "healthy:positions_as_shares",  # the same
    "planted:rotary_of_the_dtype",  # the same
}
# Labels that hang on a tensor's own dtype (x.dtype): a trace and torch.export write float32 for it,
# so a fault is not in the file, or what is right there does not run in the low precision.
BAKED = {f"planted_a:a{at}" for at in ("01", "07", "11", "12")}
BAKED |= {f"planted_b:b{at}" for at in ("01", "07", "09", "15", "16", "19")}
BAKED |= {"healthy:mask_of_the_format"}
# Found so after the first look at what the worker says of them.
BAKED |= {"planted:filled_mask", "planted_a:a02", "planted_b:b08"}
BAKED |= {"planted:rotary_of_the_dtype"}
# What the worker misses, and why.
MISSED = {
    ("planted_a:a12", "pt"): "TorchScript has written no line for the subtraction",
    ("planted_b:b05", "pt"): "names the mean that is subtracted, as for the model in Python",
    ("planted_b:b05", "pt2"): "names the mean that is subtracted, as for the model in Python",
}
# The export takes a minute: only with --slow.
SLOW = {("planted:running_sum", "pt2"), ("planted_b:b04", "pt2")}
# Data-dependent for the strict export: an index that a tensor holds.
NOT_STRICT = {"planted_b:b04"}


def _of_functions(module: types.ModuleType, name: str, dtypes: tuple[str, ...]) -> list[Case]:
    words, *rest = module.CASES[name]
    at = f"{module.__name__}:{name}"
    lines: frozenset[int] = frozenset()
    if module is planted:
        lines, dtypes, rest = frozenset(planted.lines_of(name)), (rest[0],), rest[1:]
    model = MADE_INSIDE.get(name)

    def make() -> Any:
        torch.manual_seed(0)
        return getattr(module, name) if model is None else model()

    return [
        Case(
            at if len(dtypes) == 1 else f"{at}-{dtype}",
            at,
            pathlib.Path(module.__file__),
            make,
            words,
            dtype,
            rest[0],
            lines,
            BACKWARD if name == "tiny_gradient" else "",
        )
        for dtype in dtypes
    ]


def _of_labels(folder: pathlib.Path) -> list[Case]:
    found = []
    for name, label in json.loads((folder / "labels.json").read_text()).items():
        file, _, target = label["target"].partition(":")
        kind = "model" if target == "build" else "function"
        request = {kind: f"{folder / file}:{target}", "root": str(folder)}
        request["args"] = label.get("args") or []
        skip = "FP8 is of Python's models" if label["dtype"] == "fp8" else ""
        if label["backward"] and not label["healthy"]:
            skip = BACKWARD
        found.append(
            Case(
                f"{folder.name}:{name}",
                f"{folder.name}:{name.removesuffix('bf16')}",
                folder / file,
                lambda request=request: find_target(request).make(),
                label["input"],
                label["dtype"],
                label["policy"],
                frozenset(label.get("lines") or ()),
                skip,
            )
        )
    return found


def _all() -> dict[str, Case]:
    found = [case for name in planted.CASES for case in _of_functions(planted, name, ("",))]
    for folder in ("planted_a", "planted_b"):
        found += _of_labels(FOLDER / folder)
    for name in healthy.CASES:
        found += _of_functions(healthy, name, ("bf16", "fp16"))
    return {case.name: case for case in found}


CASES = _all()


# --- functions as modules ---


class OfFunction(nn.Module):
    """Calls a function. Scripted and traced code tells the lines of whatever is called."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function


class Of1(OfFunction):
    def forward(self, a: Tensor) -> Tensor:
        return self.function(a)


class Of2(OfFunction):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.function(a, b)


class Of3(OfFunction):
    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return self.function(a, b, c)


class Of4(OfFunction):
    def forward(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        return self.function(a, b, c, d)


def as_forward(function: Any) -> nn.Module:
    """A module whose `forward` is the function itself, by that name: of all frames on the stack
    torch.export notes those that are called so, and no others (unless it is strict).
    """
    code = function.__code__.replace(co_name="forward")
    forward = types.FunctionType(code, function.__globals__, "forward", function.__defaults__)
    forward.__annotations__ = function.__annotations__
    model = nn.Module()
    model.forward = forward
    return model


def words_of(case: Case) -> list[str]:
    """The inputs; without names for what was a function, whose wrapper has other ones."""
    if isinstance(case.make(), nn.Module):
        return case.words
    return [word.partition("=")[2] if "=" in word else word for word in case.words]


def model_of(case: Case, way: str) -> nn.Module:
    made = case.make()
    if isinstance(made, nn.Module):
        return made.eval()
    if way == "pt2":
        return as_forward(made)
    return (Of1, Of2, Of3, Of4)[len(case.words) - 1](made)


WAYS: dict[str, tuple[Write, str]] = {
    "script": (script, ".pt"),
    "trace": (trace, ".pt"),
    "pt2": (program(), ".pt2"),
    "strict": (program(strict=True), ".pt2"),
}


def write(case: Case, form: str, folder: pathlib.Path) -> pathlib.Path:
    """The file of a case, made if it is not there. `pt`: scripted, or else traced."""
    way = form
    if form == "pt":
        way = "trace" if case.program in NOT_SCRIPTED else "script"
    writer, ending = WAYS[way]
    path = folder / f"{case.program.replace(':', '.')}-{way}{ending}"
    if not path.exists():
        torch.manual_seed(0)
        writer(model_of(case, way), words_of(case), path)
    return path


# --- which lines a file can tell ---


@functools.cache
def helpers(file: pathlib.Path) -> set[int]:
    """Lines of functions that a default export has no frame of: all that is not in a `forward`, nor
    in a function that is exported as one.
    """
    targets = {case.program.partition(":")[2] for case in CASES.values() if case.file == file}
    for folder in ("planted_a", "planted_b"):
        for label in json.loads((FOLDER / folder / "labels.json").read_text()).values():
            targets.add(label["target"].partition(":")[2])
    found: set[int] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name not in {"forward", *targets}:
            found |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return found


def has_helper(case: Case) -> bool:
    return not case.lines.isdisjoint(helpers(case.file))


def lines_in_forward(case: Case) -> set[int]:
    """The labelled lines, and of those in helpers the lines of `forward` from which they are
    called: all that a default export knows of them.
    """
    model, found = model_of(case, "pt2"), {*case.lines} - helpers(case.file)

    def enter(frame: Any, event: str, value: Any) -> Any:
        return at_line if frame.f_code.co_filename == str(case.file) else None

    def at_line(frame: Any, event: str, value: Any) -> Any:
        if event == "line" and frame.f_lineno in case.lines:
            while frame is not None and frame.f_code.co_name != "forward":
                frame = frame.f_back
            if frame is not None and frame.f_code.co_filename == str(case.file):
                found.add(frame.f_lineno)
        return at_line

    args, kwargs = arguments(words_of(case), 0)
    sys.settrace(enter)
    try:
        model(*args, **kwargs)
    finally:
        sys.settrace(None)
    return found


def right_lines(case: Case, form: str) -> set[int]:
    return lines_in_forward(case) if form == "pt2" and has_helper(case) else {*case.lines}
