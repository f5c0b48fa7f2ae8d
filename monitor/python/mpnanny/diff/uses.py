"""How a function uses its arguments, as far as its code shows: as an index, a condition, a size, a
number, a tensor, a list, a dict, an object with certain attributes, a model, a dtype or a device.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

import torch


@dataclass(slots=True)
class Use:
    """`keys`: what it is subscripted with by name; `attributes`: what is read of it that no tensor
    has.
    """

    is_index: bool = False
    is_condition: bool = False
    is_size: bool = False
    is_number: bool = False
    is_list: bool = False
    is_model: bool = False
    is_dtype: bool = False
    is_device: bool = False
    keys: dict[str, Use] = field(default_factory=dict)
    attributes: dict[str, Use] = field(default_factory=dict)


_OF_A_MODEL = ("named_parameters", "parameters", "named_modules", "state_dict", "named_buffers")


def uses_of(function: ast.FunctionDef) -> dict[str, Use]:
    """By argument."""
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    found = {name: Use() for name in names}
    for node in ast.walk(function):
        _see_parts(node, found)
    named = found | _parts_by_name(function, found)
    tensors: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            tensors.add(node.value.id)
        for name, what in _told_by(node):
            if name in named:
                setattr(named[name], what, True)
    for name, use in named.items():
        if name in tensors:  # a plain number has none that anybody asks for
            use.is_size = use.is_number = False
    return found


def _see_parts(node: ast.AST, found: dict[str, Use]) -> None:
    """`batch["logits"]`, `config.width`, `model.parameters()`, `model(x)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in found:
        found[node.func.id].is_model = True
        return
    if not isinstance(node, (ast.Subscript, ast.Attribute)) or not isinstance(node.value, ast.Name):
        return
    use = found.get(node.value.id)
    if use is None:
        return
    if isinstance(node, ast.Attribute):
        if node.attr in _OF_A_MODEL:
            use.is_model = True
        elif not hasattr(torch.Tensor, node.attr):
            use.attributes.setdefault(node.attr, Use(is_number=True))
    elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        use.keys.setdefault(node.slice.value, Use())


def _parts_by_name(function: ast.FunctionDef, found: dict[str, Use]) -> dict[str, Use]:
    """The parts of a dict that are given names: `x, y = batch["x"], batch["y"]`."""
    named: dict[str, Use] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for left, right in pairs:
            if not isinstance(left, ast.Name) or not isinstance(right, ast.Subscript):
                continue
            owner = found.get(right.value.id) if isinstance(right.value, ast.Name) else None
            key = right.slice.value if isinstance(right.slice, ast.Constant) else None
            if owner is not None and key in owner.keys:
                named[left.id] = owner.keys[key]
    return named


def _told_by(node: ast.AST) -> list[tuple[str, str]]:
    if isinstance(node, ast.Subscript):
        return [(name, "is_index") for name in _names(node.slice)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return [(name, "is_condition") for name in _names(node.operand)]
    if isinstance(node, ast.Call):
        return _told_by_keywords(node) + _told_by_call(node)
    if isinstance(node, (ast.For, ast.comprehension)):
        return [(name, "is_list") for name in _iterated(node.iter)]
    if isinstance(node, (ast.If, ast.IfExp, ast.Compare)):
        test = node if isinstance(node, ast.Compare) else node.test
        return [(name, "is_number") for name in _names(test)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return [(name, "is_number") for name in _names(node.right)]
    return []


def _iterated(node: ast.expr) -> list[str]:
    """`for x in xs`, `for i, x in enumerate(xs)`, `for a, b in zip(xs, ys)`."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in ("enumerate", "zip", "reversed", "list"):
            return [name for each in node.args for name in _iterated(each)]
    return []


def _told_by_keywords(node: ast.Call) -> list[tuple[str, str]]:
    """`torch.arange(n, dtype=dtype, device=device)`."""
    return [
        (each.value.id, f"is_{each.arg}")
        for each in node.keywords
        if each.arg in ("dtype", "device") and isinstance(each.value, ast.Name)
    ]


def _told_by_call(node: ast.Call) -> list[tuple[str, str]]:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in ("range", "zeros", "ones", "empty", "arange", "view", "reshape", "expand", "eye"):
        return [(each, "is_size") for argument in node.args for each in _names(argument)]
    if name in ("new_zeros", "new_ones", "new_empty", "one_hot"):
        sizes = node.args[1:] if name == "one_hot" else node.args
        told = [(each, "is_size") for argument in sizes for each in _names(argument)]
        first = node.args[:1] if name == "one_hot" else []
        return told + [(each, "is_index") for argument in first for each in _names(argument)]
    if name in ("cat", "stack", "hstack", "vstack", "concat"):
        return [(each.id, "is_list") for each in node.args[:1] if isinstance(each, ast.Name)]
    if name in ("gather", "index_select", "embedding", "nll_loss", "cross_entropy"):
        return [(each, "is_index") for argument in node.args[1:] for each in _names(argument)] + [
            (each, "is_index")
            for argument in node.args[:1]
            if name == "embedding"
            for each in _names(argument)
        ]
    if name in ("index_add", "index_add_", "index_copy", "index_copy_", "scatter_add", "bincount"):
        at = 0 if name == "bincount" else 1
        return [
            (each, "is_index") for argument in node.args[at : at + 1] for each in _names(argument)
        ]
    if name in ("masked_fill", "masked_fill_", "where", "masked_scatter", "masked_select"):
        told = [(each, "is_condition") for argument in node.args[:1] for each in _names(argument)]
        of_torch = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
        if of_torch and isinstance(function.value, ast.Name) and function.value.id == "torch":
            return told if name == "where" else []
        return told
    return []


def _names(node: ast.AST) -> list[str]:
    """Of plain names, of sums and lists of them, and of `mask.unsqueeze(-1)`, `mask[..., None]`."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, (ast.Tuple, ast.List)):
        return [name for each in node.elts for name in _names(each)]
    if isinstance(node, ast.BinOp):
        return _names(node.left) + _names(node.right)
    if isinstance(node, ast.Compare):
        return [name for each in (node.left, *node.comparators) for name in _names(each)]
    if isinstance(node, ast.Subscript) and _only_adds_dimensions(node.slice):
        return _names(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("unsqueeze", "long", "bool", "expand_as", "view", "to"):
            return _names(node.func.value)
    return []


def _only_adds_dimensions(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(each, ast.Constant) and each.value is None for each in parts) and all(
        isinstance(each, ast.Slice)
        or (isinstance(each, ast.Constant) and each.value in (None, Ellipsis))
        for each in parts
    )
