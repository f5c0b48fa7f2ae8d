"""Inputs in words: `float16[8,3,224,224]~normal(0,1)`, `mask=bool[8,128]~bernoulli(0.9)`,
`int64[2,128]<1000`, or a file of tensors (`batch.pt`, `x.npy`, `w.safetensors#weight`).
Several in one argument: `list(W; W)`, `dict(logits=W; labels=W)`, `object(width=16; depth=2)` (with
these attributes), `(3, 4)`, and `linear(16, 32)`, a layer that stands in for a model. A dtype
(`bfloat16`) and `cpu` are arguments as well.

A word is `[name=]dtype[shape]` and how its numbers are drawn; `name=` makes it a keyword argument.
Numbers are drawn in FP64 from a generator of their own and rounded to the dtype, so the same word
and seed give the same tensor on every machine with this version of torch.
"""

from __future__ import annotations

import math
import os
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from ..base.safetensors import load
from .arguments import literal
from .problem import Problem

_DTYPES = {
    "float64": torch.float64,
    "double": torch.float64,
    "float32": torch.float32,
    "fp32": torch.float32,
    "float": torch.float32,
    "float16": torch.float16,
    "fp16": torch.float16,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "float8_e5m2": torch.float8_e5m2,
    "int64": torch.int64,
    "long": torch.int64,
    "int32": torch.int32,
    "int": torch.int64,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
    "complex64": torch.complex64,
}
MOST_ELEMENTS = 1 << 28  # of one tensor

_WORD = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<dtype>\w+)\[(?P<shape>[\d,\s]*)\]"
    r"(?:<(?P<below>\d+)|~(?P<law>\w+)(?:\((?P<numbers>[^()]*)\))?)?$"
)
_NUMBER = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<value>[-+]?(?:\d|\.\d|inf|nan)\S*|True|False|None)$"
)
_OPTION = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<value>b?float\d+|cpu)$")
_NEST = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<kind>list|dict|object|linear|)\((?P<parts>.*)\)$", re.DOTALL
)

# Draws FP64 numbers: (shape, generator, the word's numbers, the largest number of the dtype).
_Law = Callable[[tuple[int, ...], torch.Generator, list[float], float], torch.Tensor]


def _normal(shape: tuple[int, ...], draw: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def _uniform(shape: tuple[int, ...], draw: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=draw, dtype=torch.float64)


def _equal_rows(
    shape: tuple[int, ...], draw: torch.Generator, numbers: list[float], most: float
) -> torch.Tensor:
    return _normal(shape[-1:], draw).expand(shape).clone()


def _largest(
    shape: tuple[int, ...], draw: torch.Generator, numbers: list[float], most: float
) -> torch.Tensor:
    count = math.prod(shape)
    signs = 1.0 - 2.0 * (torch.arange(count, dtype=torch.float64) % 2)
    return (signs * most).reshape(shape)


def _arange(
    shape: tuple[int, ...], draw: torch.Generator, numbers: list[float], most: float
) -> torch.Tensor:
    return torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)


# Name -> (how many numbers it takes, their defaults, how it draws).
_LAWS: dict[str, tuple[list[float], _Law]] = {
    "normal": ([0.0, 1.0], lambda s, g, n, m: _normal(s, g) * n[1] + n[0]),
    "uniform": ([0.0, 1.0], lambda s, g, n, m: _uniform(s, g) * (n[1] - n[0]) + n[0]),
    "lognormal": ([0.0, 1.0], lambda s, g, n, m: (_normal(s, g) * n[1] + n[0]).exp()),
    "bernoulli": ([0.5], lambda s, g, n, m: (_uniform(s, g) < n[0]).to(torch.float64)),
    "offset": ([1000.0], lambda s, g, n, m: _normal(s, g) + n[0]),
    "constant": ([0.0], lambda s, g, n, m: torch.full(s, n[0], dtype=torch.float64)),
    "zeros": ([], lambda s, g, n, m: torch.zeros(s, dtype=torch.float64)),
    "ones": ([], lambda s, g, n, m: torch.ones(s, dtype=torch.float64)),
    "masked": ([], lambda s, g, n, m: torch.ones(s, dtype=torch.float64)),
    "unmasked": ([], lambda s, g, n, m: torch.zeros(s, dtype=torch.float64)),
    "arange": ([], _arange),
    "equal_rows": ([], _equal_rows),
    "max": ([], _largest),
}


@dataclass(frozen=True, slots=True)
class Value:
    """One argument of the target. `name`: of a keyword argument, "" of a positional one."""

    name: str
    words: str
    value: Any  # a tensor, a number, or a nest of them


_FLOAT32 = re.compile(r"\bfloat32(?=\[|$)")


def in_dtype(values: list[Value], dtype: torch.dtype) -> list[Value]:
    """What is FP32 among `values` in another dtype, in words as well."""

    def cast(each: Any) -> Any:
        if each is torch.float32:
            return dtype
        is_float = isinstance(each, torch.Tensor) and each.dtype is torch.float32
        return each.to(dtype) if is_float else each

    word = str(dtype).removeprefix("torch.")
    return [
        Value(each.name, _FLOAT32.sub(word, each.words), tree_map(cast, each.value))
        for each in values
    ]


def values_of(sample: Any) -> list[Value]:
    """The arguments of a Python caller: a tensor, a tuple (positional) or a dict (by name)."""
    if isinstance(sample, dict):
        return [Value(name, "given", each) for name, each in sample.items()]
    if isinstance(sample, (tuple, list)):
        return [Value("", "given", each) for each in sample]
    return [Value("", "given", sample)]


def make_inputs(words: list[str], seed: int) -> list[Value]:
    """The arguments that `words` describe, in their order.

    Raises Problem where a word is neither a description nor a file that can be read.
    """
    made: list[Value] = []
    for at, word in enumerate(words):
        made.extend(_make(word.strip(), seed * 1000 + at))
    return made


def _make(word: str, seed: int) -> list[Value]:
    number = _NUMBER.match(word)
    if number is not None:
        return [Value(number["name"] or "", word, _plain(number["value"], word))]
    option = _OPTION.match(word)
    if option is not None:
        value = option["value"]
        made = torch.device("cpu") if value == "cpu" else _DTYPES.get(value)
        return [Value(option["name"] or "", word, made)]
    nest = _NEST.match(word)
    if nest is not None:
        return [Value(nest["name"] or "", word, _nested(nest["kind"], nest["parts"], word, seed))]
    described = _WORD.match(word)
    if described is not None:
        return [Value(described["name"] or "", word, _draw(described, word, seed))]
    name, _, path = word.partition("=") if re.match(r"[A-Za-z_]\w*=", word) else ("", "", word)
    file, _, key = path.partition("#")
    if os.path.isfile(file):
        return _from_file(name, word, file, key)
    raise Problem(
        f"The input '{word}' is neither a description of a tensor nor a file.",
        "Write dtype[shape] and how it is drawn, for example 'float32[8,128]~normal(0,1)', "
        "'int64[8]<1000', 'mask=bool[8,128]~bernoulli(0.9)', or the path of a .pt, .npy, .npz or "
        ".safetensors file (with '#key' for one tensor of it).",
    )


def _nested(kind: str, text: str, word: str, seed: int) -> Any:
    """What holds several values."""
    if kind in ("", "linear"):
        numbers = literal(f"({text},)" if text.strip() else "()")
        if not isinstance(numbers, tuple):
            raise Problem(f"'{word}' is no list of numbers.", "Write (3, 4), or linear(16, 32).")
        if kind == "":
            return numbers
        torch.manual_seed(seed)
        return nn.Linear(*numbers)
    parts = [
        each for at, one in enumerate(_parts(text)) for each in _make(one, seed * 1000 + at + 1)
    ]
    if kind == "list":
        return [each.value for each in parts]
    if not all(each.name for each in parts):
        raise Problem(f"A part of '{word}' has no name.", "Write dict(x=float32[8]; y=int64[8]<4).")
    named = {each.name: each.value for each in parts}
    return named if kind == "dict" else types.SimpleNamespace(**named)


def _parts(text: str) -> list[str]:
    """Split at semicolons that are not inside of parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == ";" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [each.strip() for each in parts if each.strip()]


def _plain(text: str, word: str) -> Any:
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    try:
        return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)
    except ValueError:
        raise Problem(f"'{word}' is no number.", "Write a number such as 8 or 1e-5.") from None


def _draw(described: re.Match[str], word: str, seed: int) -> torch.Tensor:
    dtype = _DTYPES.get(described["dtype"])
    if dtype is None:
        raise Problem(
            f"'{described['dtype']}' in the input '{word}' is no dtype.",
            "Known are " + ", ".join(_DTYPES) + ".",
        )
    shape = tuple(int(each) for each in described["shape"].split(",") if each.strip())
    if math.prod(shape) > MOST_ELEMENTS:
        raise Problem(
            f"The input '{word}' has more than {MOST_ELEMENTS} elements.", "Take a smaller shape."
        )
    draw = torch.Generator().manual_seed(seed)
    if described["below"] is not None:
        most = int(described["below"])
        if most < 1:
            raise Problem(f"No integer is below {most} in '{word}'.", "Write '<N' with N >= 1.")
        return torch.randint(most, shape, generator=draw).to(dtype)
    law = described["law"]
    if law is None:
        law = "bernoulli" if dtype is torch.bool else "normal"
        if not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool:
            raise Problem(
                f"How are the integers of '{word}' drawn?",
                f"For example '{word}<10' or '{word}~arange'.",
            )
    return _by_law(law, described["numbers"], word, shape, draw, dtype)


def _by_law(
    law: str,
    text: str | None,
    word: str,
    shape: tuple[int, ...],
    draw: torch.Generator,
    dtype: torch.dtype,
) -> torch.Tensor:
    if law not in _LAWS:
        raise Problem(
            f"'{law}' in the input '{word}' is no way to draw numbers.",
            "Known are " + ", ".join(_LAWS) + ".",
        )
    numbers, make = _LAWS[law]
    try:
        given = [float(each) for each in (text or "").split(",") if each.strip()]
    except ValueError:
        given = [math.nan] * 9
    if len(given) > len(numbers):
        raise Problem(
            f"'{law}' in the input '{word}' takes {len(numbers)} numbers.",
            f"Its defaults are {numbers}.",
        )
    most = torch.finfo(dtype).max if dtype.is_floating_point else 1.0
    values = make(shape, draw, given + numbers[len(given) :], most)
    if dtype is torch.bool:
        return values != 0
    return values.to(dtype)


def _from_file(name: str, word: str, file: str, key: str) -> list[Value]:
    try:
        held = _read(file)
    except Problem:
        raise
    except Exception as error:
        raise Problem(
            f"The input file {file} cannot be read: {type(error).__name__}: {error}",
            "Give a file that torch.save, numpy.save or safetensors has written; pickled objects "
            "other than tensors are not loaded.",
        ) from error
    if key:
        if not isinstance(held, dict) or key not in held:
            known = ", ".join(map(str, held)) if isinstance(held, dict) else "one tensor, no keys"
            raise Problem(f"{file} has no '{key}'.", f"It holds: {known[:500]}.")
        held = held[key]
    if isinstance(held, dict) and not name and all(isinstance(each, str) for each in held):
        return [Value(each, f"{word}#{each}", value) for each, value in held.items()]
    if isinstance(held, (tuple, list)) and not name:
        return [Value("", word, each) for each in held]
    return [Value(name, word, held)]


def _read(file: str) -> Any:
    ending = os.path.splitext(file)[1]
    if ending in (".npy", ".npz"):
        import numpy

        loaded = numpy.load(file, allow_pickle=False)
        if ending == ".npz":
            return {key: torch.from_numpy(loaded[key]) for key in loaded.files}
        return torch.from_numpy(loaded)
    if ending == ".safetensors":
        return load(file)[0]
    return torch.load(file, map_location="cpu", weights_only=True)
