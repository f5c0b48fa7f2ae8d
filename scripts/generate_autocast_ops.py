#!/usr/bin/env python3
"""Writes engines/check/data/autocast_ops.json: what autocast does to each operator, by device.

Asked of the installed torch, no GPU needed: the dispatcher lists the operators that an Autocast
key knows, and each of them is called under autocast with stand-in tensors of that device, while a
kernel of ours in place of the real one writes down the dtypes that arrive below autocast. Run it
again for another torch and review the difference:

    .venv/bin/python scripts/generate_autocast_ops.py > engines/check/data/autocast_ops.json
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch

DEVICES = {"CUDA": "cuda", "CPU": "cpu", "XPU": "xpu", "MPS": "mps"}
LOW = torch.bfloat16  # every device takes it, and the lists do not depend on it
POLICIES = ("lower_precision_fp", "fp32", "promote", "banned")


class Arrived(Exception):
    """Carries the dtypes and the dtype= argument that reached the operator below autocast."""

    def __init__(self, dtypes: list[torch.dtype], asked: list[torch.dtype]) -> None:
        super().__init__()
        self.dtypes = dtypes
        self.asked = asked


class StandIn(torch.Tensor):
    """A tensor without data that claims to live on a device; a kernel on it tells what arrived."""

    @staticmethod
    def __new__(cls, dtype: torch.dtype, device: str) -> StandIn:
        return torch.Tensor._make_wrapper_subclass(cls, (2, 2), dtype=dtype, device=device)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten._to_copy.default, torch.ops.aten.to.dtype):
            dtype = (kwargs or {}).get("dtype", args[1] if len(args) > 1 else args[0].dtype)
            return StandIn(dtype, str(args[0].device.type))
        raise arrived(args, kwargs or {})


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def arrived(args: Any, kwargs: dict[str, Any]) -> Arrived:
    values = list(leaves(list(args) + list(kwargs.values())))
    tensors = [v.dtype for v in values if isinstance(v, torch.Tensor)]
    return Arrived(tensors, [v for v in values if isinstance(v, torch.dtype)])


def argument(kind: str, dtypes: Iterator[torch.dtype], device: str) -> Any:
    """A value of a schema's type; what it is does not matter, since no kernel runs."""
    if kind.startswith("Optional["):
        return argument(kind[9:-1], dtypes, device) if "Tensor" in kind else None
    if kind == "Tensor":
        return StandIn(next(dtypes), device)
    if kind.startswith("List["):
        return [argument(kind[5:-1], dtypes, device) for _ in range(2)]
    simple = {
        "int": 1,
        "SymInt": 1,
        "float": 1.0,
        "number": 2.0,
        "Scalar": 2.0,
        "bool": False,
        "str": "mean",
    }
    simple |= {"Device": torch.device(device), "ScalarType": torch.float32}
    return simple.get(kind)


def endless(*pattern: torch.dtype) -> Iterator[torch.dtype]:
    while True:
        yield from pattern


def probe(op: Any, device: str, *pattern: torch.dtype) -> Arrived | str:
    """What arrives below autocast for inputs of these dtypes; a text if it raised."""
    dtypes = endless(*pattern)
    args, kwargs = [], {}
    for parameter in op._schema.arguments:
        kind = str(parameter.type)
        if parameter.has_default_value() and "Tensor" not in kind:
            continue
        value = argument(kind, dtypes, device)
        if parameter.kwarg_only:
            kwargs[parameter.name] = value
        else:
            args.append(value)
    # Not torch.autocast(): it switches itself off where the device is missing.
    was_enabled, was_dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    try:
        torch.set_autocast_enabled(device, True)
        torch.set_autocast_dtype(device, LOW)
        with torch.no_grad():
            op(*args, **kwargs)
    except Arrived as seen:
        return seen
    except Exception as error:  # noqa: BLE001
        return str(error)
    finally:
        torch.set_autocast_enabled(device, was_enabled)
        torch.set_autocast_dtype(device, was_dtype)
    return "nothing arrived"


def policy_of(op: Any, device: str) -> str | None:
    f32 = probe(op, device, torch.float32)
    if isinstance(f32, str):
        return "banned" if "unsafe to autocast" in f32 else None
    low = probe(op, device, LOW)
    mixed = probe(op, device, torch.float32, LOW)
    if isinstance(low, str) or isinstance(mixed, str):
        return None
    if all(d == LOW for d in f32.dtypes):
        return "lower_precision_fp"
    # An FP32 policy casts the inputs, or leaves them and passes dtype=float32 on.
    if all(d == torch.float32 for d in low.dtypes) or torch.float32 in low.asked:
        return "fp32"
    return "promote" if len(set(mixed.dtypes)) == 1 and len(mixed.dtypes) > 1 else None


def intercept(name: str, key: str) -> torch.library.Library:
    """Puts our kernel right below autocast: operators made of others never reach StandIn whole."""
    library = torch.library.Library("aten", "IMPL")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise arrived(args, kwargs)

    library.impl(name, kernel, f"Autograd{key}")
    return library


def lists_of(key: str, device: str) -> tuple[dict[str, list[str]], list[str]]:
    """The operators by policy, and those whose policy could not be found out."""
    lists: dict[str, list[str]] = {policy: [] for policy in POLICIES}
    unknown = []
    names = torch._C._dispatch_get_registrations_for_dispatch_key(f"Autocast{key}")
    for name in sorted(n for n in names if n.startswith("aten::")):
        short = name.removeprefix("aten::")
        packet, _, overload = short.partition(".")
        op = getattr(getattr(torch.ops.aten, packet), overload or "default")
        library = intercept(short, key)
        try:
            policy = policy_of(op, device)
        finally:
            library._destroy()
        if policy is None:
            unknown.append(short)
        else:
            lists[policy].append(short)
    return lists, unknown


def main() -> int:
    warnings.simplefilter("ignore")
    devices = {}
    for key, device in DEVICES.items():
        devices[key], unknown = lists_of(key, device)
        devices[key]["undetermined"] = unknown  # treated as unlisted
        for name in unknown:
            print(f"{key}: the policy of {name} could not be found out", file=sys.stderr)
    print(json.dumps({"torch": torch.__version__.partition("+")[0], "devices": devices}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
