"""Casts to 16 bits that a line can reach, as a program's text shows them."""

from __future__ import annotations

import pathlib

import pytest
from mpnanny.operators.source_casts import cast_near

PROGRAM = """\
import torch

def pack(tree):
    if isinstance(tree, dict):
        return {key: pack(each) for key, each in tree.items()}
    return tree.half()

def export(model):
    return model.bfloat16()

def save(states, file):
    torch.save(pack(states), file)

def serve(x):
    return x.to(dtype=torch.float16)

def resume(file):
    return torch.load(file)
"""


@pytest.fixture
def program(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return file


def line_of(program: pathlib.Path, text: str) -> int:
    lines = program.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("at", "dtype", "found"),
    [
        ("torch.save", "float16", "tree.half()"),  # by the function that it calls
        ("torch.save", "bfloat16", ""),
        ("model.bfloat16", "bfloat16", "model.bfloat16()"),
        ("x.to", "float16", "x.to"),
        ("torch.load", "float16", ""),  # out of its reach
    ],
)
def test_the_only_cast_in_reach(program, at, dtype, found):
    place = cast_near(f"{program}:{line_of(program, at)}", dtype)
    assert place == (f"{program}:{line_of(program, found)}" if found else "")


def test_of_two_casts_none_is_named(program):
    program.write_text(
        PROGRAM.replace("    torch.save(", "    states = serve(states)\n    torch.save(")
    )
    assert cast_near(f"{program}:{line_of(program, 'torch.save')}", "float16") == ""


def test_what_cannot_be_read_has_none(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("def f(:\n    x.half()\n")
    for place in ("", "gone.py:3", f"{broken}:2", f"{broken}:x"):
        assert cast_near(place, "float16") == ""
