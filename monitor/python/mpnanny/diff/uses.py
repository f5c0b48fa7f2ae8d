"""How a function uses its arguments, as far as its code shows: as an index, a condition, a size, a
number, a tensor.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(slots=True)
class Use:
    is_index: bool = False
    is_condition: bool = False
    is_size: bool = False
    is_number: bool = False


def uses_of(function: ast.FunctionDef) -> dict[str, Use]:
    """By argument."""
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    found = {name: Use() for name in names}
    attributes: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes.add(node.value.id)
        for name, what in _told_by(node):
            if name in found:
                setattr(found[name], what, True)
    for name, use in found.items():
        if name in attributes:  # a plain number has none that anybody asks for
            use.is_size = use.is_number = False
    return found


def _told_by(node: ast.AST) -> list[tuple[str, str]]:
    if isinstance(node, ast.Subscript):
        return [(name, "is_index") for name in _names(node.slice)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return [(name, "is_condition") for name in _names(node.operand)]
    if isinstance(node, ast.Call):
        return _told_by_call(node)
    if isinstance(node, (ast.If, ast.IfExp, ast.Compare)):
        test = node if isinstance(node, ast.Compare) else node.test
        return [(name, "is_number") for name in _names(test)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return [(name, "is_number") for name in _names(node.right)]
    return []


def _told_by_call(node: ast.Call) -> list[tuple[str, str]]:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in ("range", "zeros", "ones", "empty", "arange", "view", "reshape", "expand", "eye"):
        return [(each, "is_size") for argument in node.args for each in _names(argument)]
    if name in ("gather", "index_select", "embedding", "one_hot", "nll_loss", "cross_entropy"):
        return [(each, "is_index") for argument in node.args[1:] for each in _names(argument)] + [
            (each, "is_index")
            for argument in node.args[:1]
            if name in ("embedding", "one_hot")
            for each in _names(argument)
        ]
    if name in ("masked_fill", "where"):
        return [(each, "is_condition") for argument in node.args[:1] for each in _names(argument)]
    return []


def _names(node: ast.AST) -> list[str]:
    """Of plain names, and of sums and lists of them."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, (ast.Tuple, ast.List)):
        return [name for each in node.elts for name in _names(each)]
    if isinstance(node, ast.BinOp):
        return _names(node.left) + _names(node.right)
    if isinstance(node, ast.Compare):
        return [name for each in (node.left, *node.comparators) for name in _names(each)]
    return []
