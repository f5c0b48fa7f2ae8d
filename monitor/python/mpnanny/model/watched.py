"""A model that becomes another one after it was put under watch: parameters and modules that are
replaced (FSDP2, load_state_dict(assign=True), to_empty(), a new head) or added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import nn

from .names import LayerNames
from .optimizers import Optimizers
from .parts import (
    FoundModule,
    Selector,
    count_elements,
    find_modules,
    find_parameters,
    roots,
    scripted_parts,
)
from .selection import Watched
from .unmoved import Unmoved

MOST_NAMES = 5


class WatchedModel:
    """A model and its watched parameters as they are now. Read by all parts of a run, written by
    Changes alone.
    """

    def __init__(self, model: nn.Module, selectors: list[Selector] | None) -> None:
        self.module = model
        self.selectors = selectors
        self.parameters = Watched([], [])
        self.parameter_ids: set[int] = set()  # of the model, watched or not
        self.layers_by_name: dict[str, int] = {}  # of the parameters
        self.has_modules = True
        self.prefixes: list[str] = []  # of the names of those modules that are trained together


class Changes:
    """Brings what is known of a model up to date. The core takes new names before the first step
    only; a new object under a known name at any time. `install`: of the forward hooks; like the
    rest it returns the names that came too late. `note(why, names)` says what is not watched.
    """

    def __init__(
        self,
        model: WatchedModel,
        names: LayerNames,
        optimizers: Optimizers,
        unmoved: Unmoved,
        install: Callable[[Iterable[FoundModule]], list[str]],
        note: Callable[[str, list[str]], None],
    ) -> None:
        self._model = model
        self._names = names
        self._optimizers = optimizers
        self._unmoved = unmoved
        self._install = install
        self._note = note
        self._seen: list[tuple[str, int]] = []
        self.leaves = 0

    def follow(self) -> None:
        """Takes the model as it is now."""
        module = self._model.module
        held = (p for part in module.modules() for p in part._parameters.values() if p is not None)
        if not all(isinstance(each, nn.Parameter) for each in held):
            return  # functional_call() has put other tensors there for the duration of a call
        parts = [*module.named_modules(), *module.named_parameters()]
        now = [(name, id(part)) for name, part in parts]
        if now != self._seen:
            self._seen = now
            self._take()

    def _take(self) -> None:
        model = self._model
        late = self._take_parameters()
        self._optimizers.know(model.parameters, model.parameter_ids)
        self._unmoved.follow(model.module, model.selectors)
        modules = list(find_modules(model.module, model.selectors))
        late += self._install(modules)
        self.leaves = sum(found.leaf for found in modules)
        self._note("added after the first step", late)
        self._note("compiled by torch.jit", scripted_parts(model.module))

    def _take_parameters(self) -> list[str]:
        model, late = self._model, []
        parameters: list[nn.Parameter] = []
        layers: list[int] = []
        for found in find_parameters(model.module, model.selectors):
            layer = model.layers_by_name.get(found.name, 0) or self._names.add(
                found.name, "parameter", found.source, count_elements(found.parameter), False
            )
            if not layer:
                late.append(found.name)
                continue
            model.layers_by_name[found.name] = layer
            parameters.append(found.parameter)
            layers.append(layer)
        model.parameters = Watched(parameters, layers)
        names = roots(model.module)
        model.has_modules = bool(names)
        model.prefixes = [f"{name}." for name in names if name]
        model.parameter_ids = {id(each) for each in model.module.parameters()}
        return late


def some_of(names: Iterable[str]) -> str:
    """The first of `names`."""
    names = list(names)
    return ", ".join(names[:MOST_NAMES]) + (" …" if len(names) > MOST_NAMES else "")
