"""Which precision a file of the user's says that it trains in: the literals of its autocast
regions and of the settings of a trainer, or a model that is cast whole. Nothing is run.
"""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

_DTYPES = {"float16": "fp16", "half": "fp16", "bfloat16": "bf16"}
_MODELS = ("model", "net", "network", "module")
_AUTOCASTS = ("cuda-autocast", "cpu-autocast")
# Keywords of trainers, what they may be, and the dtype and policy that this is; "": of autocast.
_SETTINGS = {
    ("mixed_precision", "fp16"): ("fp16", ""),
    ("mixed_precision", "bf16"): ("bf16", ""),
    ("fp16", True): ("fp16", ""),
    ("bf16", True): ("bf16", ""),
    ("precision", 16): ("fp16", ""),
    ("precision", "16"): ("fp16", ""),
    ("precision", "16-mixed"): ("fp16", ""),
    ("precision", "bf16"): ("bf16", ""),
    ("precision", "bf16-mixed"): ("bf16", ""),
    ("precision", "16-true"): ("fp16", "pure"),
    ("precision", "bf16-true"): ("bf16", "pure"),
}
_TRAINERS = ("Accelerator", "Fabric", "Trainer", "Arguments", "Args")


@dataclass(slots=True)
class SaidPrecision:
    """`dtype`, `policies`: as auto_diff calls them; nothing where the file says none, or several
    dtypes. Two policies: the device is known only when the code runs. `lines`: what says so, for
    people.
    """

    dtype: str = ""
    policies: tuple[str, ...] = ()
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
    for reads in (_region, _setting, _cast):
        said = [(call, each) for call in calls for each in reads(call, names)]
        if said:
            break
    else:
        return SaidPrecision()
    dtypes, policies = ({each[at] for _, each in said} for at in (0, 1))
    if len(dtypes) != 1:
        return SaidPrecision()
    call, (dtype, policy) = min(said, key=lambda each: each[0].lineno)
    words = " ".join((ast.get_source_segment(text, call) or "").split())[:100]
    return SaidPrecision(
        dtype,
        (policy,) if policy and len(policies) == 1 else _AUTOCASTS,
        [f"{os.path.basename(file)}:{call.lineno} {words}"],
    )


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Names that the file gives one value wherever it gives them one, and no caller another."""
    values: defaultdict[str, list[ast.expr]] = defaultdict(list)
    for each in ast.walk(tree):
        if isinstance(each, ast.Assign):
            for target in each.targets:
                if isinstance(target, ast.Name):
                    values[target.id].append(each.value)
    arguments = {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    return {
        name: found[0]
        for name, found in values.items()
        if name not in arguments and len({ast.dump(each) for each in found}) == 1
    }


def _region(call: ast.Call, names: dict[str, ast.expr]) -> Iterator[tuple[str, str]]:
    """Of `torch.autocast("cuda", dtype=torch.float16)` and its older forms. A device that is no
    literal gives no policy.
    """
    path = ast.unparse(call.func)
    if path.rpartition(".")[2] != "autocast":
        return
    keywords = {each.arg: each.value for each in call.keywords}
    older = ".cuda." in path or ".cpu." in path
    place = None if older else keywords.get("device_type", next(iter(call.args), None))
    device = "cuda" if ".cuda." in path else "cpu" if ".cpu." in path else _text(place, names)
    device = device.partition(":")[0]
    enabled = keywords.get("enabled")
    if device not in ("cuda", "cpu", "") or (
        isinstance(enabled, ast.Constant) and enabled.value is False
    ):
        return
    given = keywords.get("dtype", call.args[1] if len(call.args) > 1 else None)
    dtype = {"cuda": "fp16", "cpu": "bf16", "": ""}[device]  # torch's, where none is given
    if given is not None:
        dtype = _dtype(given, names)
    if dtype:
        yield dtype, f"{device}-autocast" if device else ""


def _setting(call: ast.Call, names: dict[str, ast.expr]) -> Iterator[tuple[str, str]]:
    """Of `Accelerator(mixed_precision="bf16")`, `Trainer(precision="16-mixed")`,
    `TrainingArguments(fp16=True)`.
    """
    if not ast.unparse(call.func).endswith(_TRAINERS):
        return
    for each in call.keywords:
        value = names.get(each.value.id) if isinstance(each.value, ast.Name) else each.value
        if isinstance(value, ast.Constant) and isinstance(value.value, (str, int)):
            found = _SETTINGS.get((each.arg or "", value.value))
            if found is not None:
                yield found


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
