"""Which modules and parameters of a model are watched, and where their code is."""

from __future__ import annotations

import fnmatch
import inspect
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ..operators.places import is_library

Selector = str | re.Pattern[str] | type[nn.Module]


@dataclass
class FoundModule:
    name: str  # as in named_modules(); "" is the model itself
    module: nn.Module
    source: str
    leaf: bool
    numel: int
    root: bool = False  # the model, or one of those that are trained together
    has_fast_path: bool = False  # torch takes another way through it while it has no hooks


@dataclass
class FoundParameter:
    name: str
    parameter: nn.Parameter
    source: str


@dataclass
class FoundBuffer:
    name: str
    module: nn.Module
    key: str  # of the module's
    source: str
    numel: int

    def tensor(self) -> torch.Tensor | None:
        """The buffer as it is now: assigning one makes another object."""
        held = self.module._buffers  # without get() where the module is scripted
        return held[self.key] if self.key in held else None


class Together(nn.Module):
    """Stands for what one optimizer trains where no module holds all of it: several modules, and
    tensors that are in none.
    """

    def __init__(self, modules: dict[str, nn.Module], tensors: dict[str, torch.Tensor]) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)
        self._tensors = tensors

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        yield from super().named_parameters(*args, **kwargs)
        yield from self._tensors.items()


def class_name(model: nn.Module) -> str:
    """What the program calls the model's class; of several models, each one's: "Actor + Critic"."""
    if not isinstance(model, Together):
        return type(model).__name__
    classes = [type(each).__name__ for each in model.children()]
    return " + ".join(classes) or "weights that are in no module"


def roots(model: nn.Module) -> list[str]:
    """The names of the modules that the program calls as a whole; "" is the model itself."""
    return [name for name, _ in model.named_children()] if isinstance(model, Together) else [""]


def count_elements(parameter: nn.Parameter) -> int:
    """0 where it is not known yet: a lazy module learns its shape from its first input."""
    return 0 if is_lazy(parameter) else parameter.numel()


def _is_leaf(module: nn.Module) -> bool:
    return next(module.children(), None) is None


def _runs_code(module: nn.Module) -> bool:
    """False for containers whose forward only passes on (or that have none)."""
    passing = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
    return type(module) not in passing


def _matches(name: str, module: nn.Module, selectors: Iterable[Selector]) -> bool:
    for selector in selectors:
        if isinstance(selector, str):
            if name == selector or fnmatch.fnmatchcase(name, selector):
                return True
        elif isinstance(selector, re.Pattern):
            if selector.search(name):
                return True
        elif isinstance(module, selector):
            return True
    return False


def _is_torchs(cls: type) -> bool:
    return cls.__module__.split(".")[0] == "torch"


class _Sources:
    """'file:line' of a module: of its class's forward, or, for torch's own classes, of the place in
    the user's code that
    calls it."""

    def __init__(self, model: nn.Module) -> None:
        self.modules = dict(model.named_modules())
        self._seen: dict[tuple[type, str], str] = {}

    def of(self, name: str) -> str:
        cls = type(self.modules[name])
        if not _is_torchs(cls):
            return self._locate(cls, "")
        parts = name.split(".") if name else []
        for depth in range(len(parts) - 1, -1, -1):
            owner = type(self.modules[".".join(parts[:depth])])
            if not _is_torchs(owner):
                return self._locate(owner, parts[depth])
        return self._locate(cls, "")

    def _locate(self, cls: type, attribute: str) -> str:
        key = (cls, attribute)
        if key not in self._seen:
            self._seen[key] = self._find(cls, attribute)
        return self._seen[key]

    @staticmethod
    def _find(cls: type, attribute: str) -> str:
        try:
            code, first, file = _code_of(cls)
        except (TypeError, OSError, AttributeError):
            return ""
        line = next((i for i, text in enumerate(code) if _DEFINES.match(text)), 0)
        if attribute:
            use = re.compile(rf"\bself\.{re.escape(attribute)}\b(?!\s*(:|=[^=]))")
            line = next((i for i, text in enumerate(code) if use.search(text)), line)
        return f"{os.path.abspath(file)}:{first + line}"


_DEFINES = re.compile(r"\s*(def|async def|class) ")  # past decorators


def _code_of(cls: type) -> tuple[list[str], int, str]:
    """The lines of a class's forward, the number of the first and the file. Of a class of the
    user's that has its forward from a library (a LightningModule) those of the class: it calls its
    parts elsewhere.
    """
    forward = inspect.unwrap(cls.forward)  # type: ignore[attr-defined]
    file = inspect.getsourcefile(forward)
    if is_library(file or "") and not is_library(inspect.getsourcefile(cls) or ""):
        forward, file = cls, inspect.getsourcefile(cls)
    if file is None:
        raise OSError
    lines, first = inspect.getsourcelines(forward)
    return lines, first, file


def find_modules(model: nn.Module, layers: Iterable[Selector] | None) -> Iterator[FoundModule]:
    """The modules whose forward is watched: leaves, containers with code of their own, and the
    model itself.
    """
    selectors = list(layers) if layers is not None else None
    sources = _Sources(model)
    fast: list[str] = []
    whole = roots(model)
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue  # its children do not call Python hooks
        if isinstance(module, nn.TransformerEncoderLayer):
            fast.append(name)
        root = name in whole
        if isinstance(module, Together):
            continue  # never runs
        if not root and selectors is not None and not _matches(name, module, selectors):
            continue
        leaf = _is_leaf(module)
        if not root and not leaf and not _runs_code(module):
            continue
        numel = sum(count_elements(p) for p in module.parameters(recurse=False))
        inside = any(name == outer or name.startswith(f"{outer}.") for outer in fast)
        yield FoundModule(name, module, sources.of(name), leaf, numel, root, inside)


def scripted_parts(model: nn.Module) -> list[str]:
    """Names of the outermost modules that TorchScript runs: it calls no Python hooks inside."""
    found: list[str] = []
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            if not any(name.startswith(f"{outer}.") or not outer for outer in found):
                found.append(name)
    return found


def find_parameters(
    model: nn.Module, layers: Iterable[Selector] | None
) -> Iterator[FoundParameter]:
    """The parameters that can have a gradient, in the order of definition; a shared one once."""
    sources = _Sources(model)
    for name, parameter in model.named_parameters():
        if _is_chosen(name, model, sources, layers):
            yield FoundParameter(name, parameter, sources.of(name.rpartition(".")[0]))


def find_buffers(model: nn.Module, layers: Iterable[Selector] | None) -> Iterator[FoundBuffer]:
    """The buffers of floating point, in the order of definition; a shared one once."""
    sources = _Sources(model)
    for name, buffer in model.named_buffers():
        if is_lazy(buffer) or not buffer.is_floating_point():
            continue
        if not _is_chosen(name, model, sources, layers):
            continue
        owner, _, key = name.rpartition(".")
        yield FoundBuffer(name, sources.modules[owner], key, sources.of(owner), buffer.numel())


def _is_chosen(
    name: str, model: nn.Module, sources: _Sources, layers: Iterable[Selector] | None
) -> bool:
    """Whether a parameter or buffer is selected: itself, or the module that owns it."""
    if layers is None:
        return True
    owner = name.rpartition(".")[0]
    by_name = [selector for selector in layers if not isinstance(selector, type)]
    return _matches(name, model, by_name) or _matches(owner, sources.modules[owner], layers)


def check_selectors(layers: Any) -> list[Selector] | None:
    """`layers` as given by the user: one selector or several."""
    if layers is None:
        return None
    if isinstance(layers, (str, re.Pattern, type)):
        layers = [layers]
    selectors = list(layers)
    for selector in selectors:
        if not isinstance(selector, (str, re.Pattern)) and not (
            isinstance(selector, type) and issubclass(selector, nn.Module)
        ):
            raise TypeError(
                f"layers: {selector!r} is no name, glob, compiled pattern or module class"
            )
    return selectors
