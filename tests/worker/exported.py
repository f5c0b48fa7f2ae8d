"""Models as files: of fifteen families and of what a program can hold, as TorchScript and as
torch.export programs. `EXPORTS` names them; `Export.write` makes one.
"""

from __future__ import annotations

import logging
import pathlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import variants
from families import FAMILIES
from mpnanny.programs.specification import make_inputs
from torch import nn

SEED = 1  # of the inputs


def arguments(words: list[str], seed: int = SEED) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments that `words` describe."""
    made = make_inputs(words, seed)
    return (
        tuple(each.value for each in made if not each.name),
        {each.name: each.value for each in made if each.name},
    )


# --- ways to write a model ---

Write = Callable[[nn.Module, list[str], pathlib.Path], None]


def script(model: nn.Module, words: list[str], path: pathlib.Path) -> None:
    torch.jit.save(scripted(model), str(path))


def scripted(target: Any) -> Any:
    """torch.jit.script, which else remembers classes that it failed to compile."""
    torch.jit._recursive.concrete_type_store = torch.jit._recursive.ConcreteTypeStore()
    torch.jit._state._clear_class_state()
    return torch.jit.script(target)


def trace(model: nn.Module, words: list[str], path: pathlib.Path) -> None:
    args, kwargs = arguments(words)
    with torch.no_grad():
        made = torch.jit.trace(model, (*args, *kwargs.values()), check_trace=False, strict=False)
    torch.jit.save(made, str(path))


def freeze(model: nn.Module, words: list[str], path: pathlib.Path) -> None:
    torch.jit.save(torch.jit.freeze(scripted(model)), str(path))


def for_inference(model: nn.Module, words: list[str], path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.optimize_for_inference(scripted(model)), str(path))


def program(
    strict: bool = False,
    decompose: bool = False,
    dynamic: str = "",
    at: list[str] | None = None,
    grad: bool = False,
) -> Write:
    """torch.export. `dynamic`: the argument whose first dimension may be any; `at`: words of the
    inputs at which it is exported, where it runs on others. `grad`: exported with gradients on, so
    that regions without them are kept.
    """

    def write(model: nn.Module, words: list[str], path: pathlib.Path) -> None:
        args, kwargs = arguments(at or words)
        shapes = {dynamic: {0: torch.export.Dim("batch", min=2, max=64)}} if dynamic else None
        logging.disable(logging.WARNING)
        try:
            with torch.set_grad_enabled(grad):
                made = torch.export.export(
                    model, args, kwargs, dynamic_shapes=shapes, strict=strict
                )
                if decompose:
                    made = made.run_decompositions()
            torch.export.save(made, str(path))
        finally:
            logging.disable(logging.NOTSET)

    return write


# --- which model is written how ---


@dataclass(frozen=True)
class Export:
    """One file.

    `exact`: its values are those of the model in Python bit for bit; else the writer has changed
    what is computed, and they are near. `random`: the model draws numbers. `named`: its modules are
    still there.
    """

    name: str
    make: Callable[[], nn.Module]
    words: list[str]
    writer: Write
    ending: str
    exact: bool = True
    random: bool = False
    named: bool = True

    def model(self) -> nn.Module:
        """The same each time."""
        torch.manual_seed(3)
        return self.make()

    def write(self, folder: pathlib.Path) -> pathlib.Path:
        """The file, made if it is not there."""
        path = folder / f"{self.name}{self.ending}"
        if not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.writer(self.model(), self.words, path)
        return path


EXPORTS: dict[str, Export] = {}


def add(
    name: str,
    make: Callable[[], nn.Module],
    words: list[str],
    ending: str,
    writer: Write,
    evaluated: bool = True,
    **facts: bool,
) -> None:
    def made() -> nn.Module:
        model = make()
        return model.eval() if evaluated else model

    assert name not in EXPORTS
    EXPORTS[name] = Export(name, made, words, writer, ending, **facts)


# gpt: scaled_dot_product_attention(*parts) of a tensor; experts: nonzero(as_tuple=True).
NOT_SCRIPTED = {"gpt", "checkpointed gpt", "experts"}
# Both ask a tensor on the way: whether a mask is causal, how many tokens an expert has.
NOT_EXPORTED = {"translator", "experts"}

for family, (make, words) in FAMILIES.items():
    stem, draws = family.replace(" ", "_"), family == "variational autoencoder"
    written = trace if family in NOT_SCRIPTED else script
    # torch's encoder layers take a faster way where no hook is on them, as there is in Python.
    exact = family != "translator"
    add(f"{stem}-{written.__name__}", make, words, ".pt", written, exact=exact, random=draws)
    if family not in NOT_EXPORTED:
        add(f"{stem}-program", make, words, ".pt2", program(), random=draws)

for family in ("cnn", "unet", "mixer"):  # also traced, where they can be scripted
    make, words = FAMILIES[family]
    add(f"{family}-trace", make, words, ".pt", trace)

ROWS = ["float32[5,8]"]

for family in ("cnn", "resnet"):
    make, words = FAMILIES[family]
    add(f"{family}-frozen", make, words, ".pt", freeze, exact=False, named=False)
add("small-frozen", variants.Small, ROWS, ".pt", freeze, named=False)
# Of a convolution optimize_for_inference makes an MKL-DNN constant, which torch.jit.load then
# cannot read: "required keyword attribute 'value' is undefined".
add("small-inference", variants.Small, ROWS, ".pt", for_inference, exact=False, named=False)
add("gan-inference", *FAMILIES["gan"], ".pt", for_inference, exact=False, named=False)
add("gru-inference", *FAMILIES["gru"], ".pt", for_inference, exact=False, named=False)

for family in ("gpt", "waves", "resnet", "unet"):
    make, words = FAMILIES[family]
    add(f"{family}-decomposed", make, words, ".pt2", program(decompose=True), exact=False)
for family in ("gpt", "contrastive", "gru"):
    make, words = FAMILIES[family]
    add(f"{family}-strict", make, words, ".pt2", program(strict=True))

for family, argument, words, at in (
    ("cnn", "x", ["float32[7,1,12,12]"], ["float32[4,1,12,12]"]),
    ("gpt", "tokens", ["int64[7,24]<61"], ["int64[4,24]<61"]),
    ("mixer", "x", ["float32[7,3,16,16]"], ["float32[4,3,16,16]"]),
    ("waves", "x", ["float32[7,1,64]"], ["float32[4,1,64]"]),
):
    make = FAMILIES[family][0]
    add(f"{family}-dynamic", make, words, ".pt2", program(dynamic=argument, at=at))
# Not the graph: its len(nodes) is a number for the export, and holds for that number alone.

PLAIN = ["float32[5,8]", "2.5", "None", "offset=float32[5,8]"]
FULL = ["float32[5,8]", "2.5", "mask=bool[5,8]~bernoulli(0.4)"]


def bfloat16() -> nn.Module:
    return variants.Small().to(torch.bfloat16)


for name, make, words in (
    ("regions", variants.Regions, ROWS),
    ("without", variants.Without, ROWS),
    ("tied", variants.Tied, ["int64[3,6]<20"]),
    ("bfloat16", bfloat16, ["bfloat16[5,8]"]),
    ("plain", variants.Plain, PLAIN),
    ("plain-masked", variants.Plain, FULL),
    ("nested", variants.Nested, ROWS),
    ("listed", variants.Listed, ROWS),
    ("inplace", variants.InPlace, ROWS),
):
    add(f"{name}-program", make, words, ".pt2", program(grad=name in ("regions", "without")))
    add(f"{name}-script", make, words, ".pt", script)
# The graphs of torch.cond's branches tell no module and no line; TorchScript has no torch.cond.
for name, words in (("branches", ROWS), ("branches-negative", ["float32[5,8]~offset(-2)"])):
    add(f"{name}-program", variants.Branches, words, ".pt2", program(), named=False)
add("inplace-decomposed", variants.InPlace, ROWS, ".pt2", program(decompose=True))
add("inplace-trace", variants.InPlace, ROWS, ".pt", trace)
# A trace gives no dict with a list in it.
add("listed-trace", variants.Listed, ROWS, ".pt", trace)
add("counting-program", variants.Counting, ROWS, ".pt2", program(grad=True), evaluated=False)
add("counting-script", variants.Counting, ROWS, ".pt", script, evaluated=False)
add("control-script", variants.Control, ROWS, ".pt", script)
add("control-deeper", variants.Control, [*ROWS, "3"], ".pt", script)
add("control-early", variants.Control, ["float32[2,3,8]"], ".pt", script)
add("control-frozen", variants.Control, ROWS, ".pt", freeze, named=False)
