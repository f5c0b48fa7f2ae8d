"""Which words an argument may be, from its annotation, its default and its use, the likeliest
first.

A word may have its shape open (`float32[{}]`). An argument that holds several values (a dict, an
object) has a slot for each of them.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field

from .uses import Use

NORMAL, UNIFORM = "~normal(0,1)", "~uniform(0,1)"
_FLOAT, _IDS, _MASK = f"float32[{{}}]{NORMAL}", "int64[{}]<8", "bool[{}]~bernoulli(0.7)"
_UNIT = f"float32[{{}}]{UNIFORM}"
_LIST = f"list({_FLOAT}; {_FLOAT})"
_NUMBERS = ("16", "4", "2", "8", "1", "0.5", "0.1", "0", "3")
_TUPLES = ("(16,)", "(4, 4)", "(8, 8)", "(8, 16)")
_MODELS = ("linear(16, 16)", "linear(8, 8)")


@dataclass(slots=True)
class Slots:
    """`choices`: of each slot; "" leaves it to its default. `nests`: of an argument that is made of
    several slots, how (dict, object) and of which.
    """

    choices: dict[str, list[str]] = field(default_factory=dict)
    nests: dict[str, tuple[str, list[str]]] = field(default_factory=dict)

    def composed(self, words: dict[str, str]) -> dict[str, str]:
        """Words by argument of words by slot."""
        parts: dict[str, list[str]] = {}
        made: dict[str, str] = {}
        for slot, word in words.items():
            owner, _, part = slot.partition(".")
            if not part:
                made[slot] = word
            else:
                parts.setdefault(owner, []).append(f"{part}={word}")
        for owner, each in parts.items():
            made[owner] = f"{self.nests[owner][0]}({'; '.join(each)})"
        return made


def slots_of_function(parameters: list[inspect.Parameter], uses: dict[str, Use]) -> Slots:
    slots = Slots()
    for each in parameters:
        _add(slots, each, uses.get(each.name, Use()))
    return slots


def slots_of_class(parameters: list[inspect.Parameter], uses: dict[str, Use]) -> Slots:
    """What objects are made with is mostly numbers."""
    slots = slots_of_function(parameters, uses)
    for name, words in slots.choices.items():
        words.sort(key=lambda each: "{}" in each)
        slots.choices[name] = words
    return slots


def _add(slots: Slots, parameter: inspect.Parameter, use: Use) -> None:
    name = parameter.name
    optional = parameter.default is not inspect.Parameter.empty
    if use.keys and not optional:
        _add_nest(slots, name, "dict", use.keys)
    elif use.attributes and not optional and not use.is_model:
        _add_nest(slots, name, "object", use.attributes)
    else:
        slots.choices[name] = _choices(parameter, use)


def _add_nest(slots: Slots, name: str, kind: str, parts: dict[str, Use]) -> None:
    inner = [each for each in parts if each.isidentifier()]
    slots.nests[name] = (kind, inner)
    for each in inner:
        part = inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        slots.choices[f"{name}.{each}"] = _choices(part, parts[each])


def _choices(parameter: inspect.Parameter, use: Use) -> list[str]:
    """Words that an argument may be; "" leaves it to its default."""
    if parameter.default is not inspect.Parameter.empty and parameter.default is not None:
        return [""]
    found = _likely(_annotation(parameter), use)
    return found if parameter.default is inspect.Parameter.empty else ["", *found]


def _annotation(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        return ""
    if isinstance(annotation, str):
        return annotation
    plain = getattr(annotation, "__args__", None) is None
    return getattr(annotation, "__name__", "") if plain else str(annotation)


def _likely(annotation: str, use: Use) -> list[str]:
    words = annotation.lower().removeprefix("typing.")
    tensors = [_FLOAT, _UNIT, _IDS, _MASK]
    if use.is_index:
        tensors = [_IDS, _MASK, _FLOAT]
    elif use.is_condition:
        tensors = [_MASK, _FLOAT, _IDS]
    if words.startswith("int") or (use.is_size and not words):
        return list(_NUMBERS)
    if words == "float":
        return ["0.5", "0.1", "2.0", "1.0", "16.0"]
    if words == "bool":
        return ["True", "False"]
    if use.is_model:
        return list(_MODELS)
    if use.is_dtype or words.endswith("dtype"):
        return ["float32"]
    if use.is_device or words.endswith("device"):
        return ["cpu"]
    if "tensor" in words and words.startswith(("list", "sequence", "tuple", "iterable")):
        return [_LIST, *tensors]
    if words.startswith(("tuple", "list", "sequence", "torch.size")):
        return list(_TUPLES)
    if use.is_list:
        return [*tensors, _LIST]
    if use.is_number:
        return [*_NUMBERS[:6], *tensors]
    return [*tensors, "16", "0.5", *_TUPLES[2:3]]
