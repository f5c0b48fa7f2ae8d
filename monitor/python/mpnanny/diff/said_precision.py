"""Which precision a file of the user's says that it trains in: the literals of its autocast
regions, or a model that is cast whole. Nothing is run.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

_DTYPES = {"float16": "fp16", "half": "fp16", "bfloat16": "bf16"}
_MODELS = ("model", "net", "network", "module")


@dataclass(slots=True)
class SaidPrecision:
    """`dtype`, `policy`: as auto_diff calls them; "" where the file says none, or several.
    `lines`: what says so, for people.
    """

    dtype: str = ""
    policy: str = ""
    lines: list[str] = field(default_factory=list)


def said_precision(file: str) -> SaidPrecision:
    try:
        with open(file, encoding="utf-8") as source:
            text = source.read()
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return SaidPrecision()
    names = _constants(tree)
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    regions = [(call, said) for call in calls for said in _region(call, names)]
    said = regions or [(call, each) for call in calls for each in _cast(call, names)]
    if len({each for _, each in said}) != 1:
        return SaidPrecision()
    call, (dtype, policy) = min(said, key=lambda each: each[0].lineno)
    words = " ".join((ast.get_source_segment(text, call) or "").split())[:100]
    return SaidPrecision(dtype, policy, [f"{os.path.basename(file)}:{call.lineno} {words}"])


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Names that the file's top level gives one value."""
    found: dict[str, ast.expr] = {}
    for each in tree.body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            found[each.targets[0].id] = each.value
    return found


def _region(call: ast.Call, names: dict[str, ast.expr]) -> Iterator[tuple[str, str]]:
    """Of `torch.autocast("cuda", dtype=torch.float16)` and its older forms."""
    path = ast.unparse(call.func)
    if path.rpartition(".")[2] != "autocast":
        return
    keywords = {each.arg: each.value for each in call.keywords}
    older = ".cuda." in path or ".cpu." in path
    place = None if older else keywords.get("device_type", next(iter(call.args), None))
    device = "cuda" if ".cuda." in path else "cpu" if ".cpu." in path else _text(place, names)
    device = device.partition(":")[0]
    enabled = keywords.get("enabled")
    if device not in ("cuda", "cpu") or (
        isinstance(enabled, ast.Constant) and enabled.value is False
    ):
        return
    given = keywords.get("dtype", call.args[1] if len(call.args) > 1 else None)
    dtype = "fp16" if device == "cuda" else "bf16"  # what torch takes where none is given
    if given is not None:
        dtype = _dtype(given, names)
    if dtype:
        yield dtype, f"{device}-autocast"


def _cast(call: ast.Call, names: dict[str, ast.expr]) -> Iterator[tuple[str, str]]:
    """Of `model.half()`, `Net().bfloat16()`, `model.to(torch.bfloat16)`."""
    if not isinstance(call.func, ast.Attribute) or not _is_model(call.func.value):
        return
    if call.func.attr in _DTYPES and not call.args:
        yield _DTYPES[call.func.attr], "pure"
    elif call.func.attr == "to":
        for given in (*call.args, *(each.value for each in call.keywords)):
            if dtype := _dtype(given, names):
                yield dtype, "pure"


def _is_model(node: ast.expr) -> bool:
    """A model by its name, or something made of a class."""
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).rpartition(".")[2]
        return name[:1].isupper() or name.startswith(("build", "create_model", "from_pretrained"))
    return ast.unparse(node).rpartition(".")[2] in _MODELS


def _text(node: ast.expr | None, names: dict[str, ast.expr]) -> str:
    if isinstance(node, ast.Name):
        node = names.get(node.id)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _dtype(node: ast.expr, names: dict[str, ast.expr]) -> str:
    """ "fp16" of `torch.float16`; "" of what is no 16-bit dtype, or is not known."""
    if isinstance(node, ast.Name):
        node = names.get(node.id, node)
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "torch":
        return _DTYPES.get(node.attr, "")
    return ""
