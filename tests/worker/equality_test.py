"""The worker computes what the libraries compute, bit for bit, and calls the modules by the names
that they had in Python.
"""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import torch
from asking import PROGRAM, capture, read
from exported import EXPORTS, SEED, Export, arguments
from mpnanny.diff import capture as capture_of_python
from mpnanny.fp64.call import floats
from mpnanny.programs.specification import make_inputs


def given_by_the_library(export: Export, path: Any) -> list[torch.Tensor]:
    """What PyTorch itself gives for the file, in its order; only numbers of floating point."""
    args, kwargs = arguments(export.words)
    with torch.no_grad():
        if path.suffix == ".pt":
            model = torch.jit.load(str(path))
        else:
            model = torch.export.load(str(path)).module()
        torch.manual_seed(7)
        return list(floats(model(*args, **kwargs)))


def given_in_python(export: Export, folder: Any) -> dict[str, torch.Tensor]:
    """What each module of the model gives that was written."""
    args, kwargs = arguments(export.words)
    path = folder / f"{export.name}.eager.safetensors"
    model = export.model()
    if kwargs:
        names = list(model.forward.__code__.co_varnames)[1:]
        kwargs = {**dict(zip(names, args, strict=False)), **kwargs}
    torch.manual_seed(7)
    capture_of_python(model, kwargs or args, str(path))
    return read(path)


def whole(held: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """The tensors of "(model)", "(model).1" and so on."""
    names = ["(model)", *(f"(model).{at}" for at in range(1, len(held)))]
    return [held[name] for name in names if name in held]


def drawn(export: Export, at: int) -> bool:
    """Whether the tensor `at` of the result is of numbers drawn at random: the variational
    autoencoder's first is, its mean and variance are not.
    """
    return export.random and at == 0


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Bit for bit, NaN and the sign of zero included."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    pair = [each.contiguous().reshape(-1).view(torch.uint8) for each in (left, right)]
    return torch.equal(*pair)


def near(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.shape == right.shape and torch.allclose(left, right, rtol=1e-4, atol=1e-5)


def with_parameters(model: torch.nn.Module, names: Any) -> set[str]:
    """The modules without modules in them that have parameters, by the names of all their calls."""
    leaves = {
        name
        for name, module in model.named_modules()
        if name and not list(module.children()) and list(module.parameters(recurse=False))
    }
    return {name for name in names if name.partition("#")[0] in leaves}


@pytest.mark.parametrize("name", EXPORTS)
def test_the_file_gives_what_the_model_gave(name, files):
    """Of PyTorch itself: without it the other tests would say nothing."""
    export = EXPORTS[name]
    found = given_by_the_library(export, export.write(files))
    wanted = whole(given_in_python(export, files))
    assert len(found) == len(wanted) > 0
    for at, (left, right) in enumerate(zip(found, wanted, strict=True)):
        if not drawn(export, at):
            assert (same if export.exact else near)(left, right), at


@pytest.mark.parametrize("name", EXPORTS)
def test_the_result_is_the_librarys_bit_for_bit(name, files, worker):
    export = EXPORTS[name]
    path = export.write(files)
    held = capture(path, export.words, SEED)
    found, wanted = whole(held), given_by_the_library(export, path)
    assert len(found) == len(wanted)
    for at, (left, right) in enumerate(zip(found, wanted, strict=True)):
        if not drawn(export, at):
            assert same(left, right), at


@pytest.mark.parametrize("name", EXPORTS)
def test_each_module_gives_what_it_gave_in_python(name, files, worker):
    export = EXPORTS[name]
    held = capture(export.write(files), export.words, SEED)
    wanted = given_in_python(export, files)
    assert {*held} <= {*wanted}, "names that no module has"
    if export.named and export.ending == ".pt2":
        assert with_parameters(export.model(), wanted) <= {*held}
    shared = [each for each in wanted if each in held]
    assert shared == list(held), "not in the order of Python"
    if export.random:
        shared = [each for each in shared if each.startswith("encoder")]
    for each in shared:
        assert (same if export.exact else near)(held[each], wanted[each]), each


@pytest.mark.parametrize("name", [each for each in EXPORTS if EXPORTS[each].random])
def test_what_is_drawn_at_random_is_the_same_each_time(name, files, worker):
    export = EXPORTS[name]
    path = export.write(files)
    first, second = (capture(path, export.words, SEED) for _ in range(2))
    assert [*first] == [*second] and all(same(first[each], second[each]) for each in first)


WORDS = [
    "float32[4,6]",
    "float32[3,5]~normal(-2,0.5)",
    "float32[17]~uniform(0.25,4)",
    "float32[2,9]~lognormal(0,2)",
    "float32[40]~bernoulli(0.3)",
    "float32[2,40]~offset(30)",
    "float32[2,3]~constant(-1.5)",
    "float32[3]~zeros",
    "float32[3]~ones",
    "float32[2,8]~arange",
    "float32[4,16]~equal_rows",
    "float32[6]~max",
    "float64[5]",
    "bfloat16[33]~normal(0,3)",
    "float16[33]~normal(0,3)",
    "float32[]",
    "float32[0,3]",
    "float32[257]",
]


class Same(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0


class Seen(torch.nn.Module):
    """Whole numbers and truths are in no capture: they are made FP64."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float64)


@pytest.mark.parametrize("seed", [0, 1, 12345])
@pytest.mark.parametrize("word", [*WORDS, "int64[50]<1000", "bool[40]~bernoulli(0.7)", "bool[9]"])
def test_inputs_are_drawn_as_in_python(word, seed, files, worker):
    model = Same() if word.startswith(("float", "bfloat")) else Seen()
    path = files / f"{type(model).__name__}.pt"
    if not path.exists():
        torch.jit.save(torch.jit.script(model), str(path))
    wanted = model(make_inputs([word], seed)[0].value)
    found = capture(path, [word], seed)["(model)"]
    assert same(found, wanted)


def test_captures_of_the_worker_and_of_python_can_be_compared(files, worker, tmp_path):
    export = EXPORTS["cnn-program"]
    made = tmp_path / "worker.safetensors"
    subprocess.run(
        [PROGRAM, "capture", export.write(files), "--input", export.words[0]]
        + ["--seed", str(SEED), "-o", made],
        check=True,
        timeout=120,
    )
    given_in_python(export, tmp_path)
    eager = tmp_path / f"{export.name}.eager.safetensors"
    done = subprocess.run(
        [PROGRAM, "diff", "--captures", eager, "--captures", made],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "clean" in done.stdout
