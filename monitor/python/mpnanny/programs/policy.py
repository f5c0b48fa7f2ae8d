"""In which precision a target runs: what torch.autocast does on the CPU, what it does on CUDA, or
everything in the low dtype.

A CPU answers for CUDA: while `under("cuda-autocast", …)` is on, the kernels that torch registers
for autocast on the CPU are replaced by ones that follow CUDA's operator lists (autocast_ops.json,
derived from torch's own registrations), and `torch.autocast("cuda")` in the target's code means the
CPU's. So the lists, the regions and the casts are CUDA's; the arithmetic below them is the CPU's.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map

from ..base.float32 import full_float32
from ..operators.places import pass_through
from . import eight_bit

pass_through(__file__)

POLICIES = ("cuda-autocast", "cpu-autocast", "pure")
COMPILE = "compile"  # no precision: what torch.compile makes of it (../compiled)
AS_IT_RUNS = "as-it-runs"  # no policy around it: what is in 16 bits is so by the program itself
LOW = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.bfloat16}

_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_LISTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "autocast_ops.json")


def _is_cast(value: Any) -> bool:
    """What autocast casts: every floating-point tensor but FP64."""
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )


class _Casts:
    """Of one autocast region: casts of weights are made once, as torch's own cache does, so that
    the gradients of a weight that is used twice add up in FP32 or in the low dtype as they would.
    """

    def __init__(self, low: torch.dtype) -> None:
        self.low = low
        self._made: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}

    def to_low(self, value: Any) -> Any:
        if not _is_cast(value) or value.dtype is self._now():
            return value
        kept = value.dtype is torch.float32 and value.requires_grad and value.is_leaf
        if not kept or value._is_view() or not torch.is_autocast_cache_enabled():
            return value.to(self._now())
        known = self._made.get(id(value))
        if known is not None and known[0]() is value and known[1].dtype is self._now():
            return known[1]
        made = value.to(self._now())
        self._made[id(value)] = (weakref.ref(value), made)
        return made

    def _now(self) -> torch.dtype:
        return torch.get_autocast_dtype("cpu")  # of the innermost region

    def clear(self) -> None:
        self._made.clear()


def _to_float32(value: Any) -> Any:
    return value.float() if _is_cast(value) and value.dtype is not torch.float32 else value


def _overload(name: str) -> Any:
    """None where this torch has no such operator."""
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return None if packet is None else getattr(packet, overload or "default", None)


def _kernel(category: str, operator: Any, casts: _Casts) -> Callable[..., Any]:
    """What autocast does with `operator`: autocast_mode.h of torch says which category means
    what.
    """

    def call(args: Any, kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return operator(*args, **kwargs)

    def lower_precision(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(casts.to_low, (args, kwargs))
        return call(args, kwargs)

    def float32(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(_to_float32, (args, kwargs))
        return call(args, kwargs)

    def float32_by_argument(*args: Any, **kwargs: Any) -> Any:
        if _is_cast(args[0]) and "dtype" in names and kwargs.get("dtype") is None:
            at = names.index("dtype")
            if len(args) > at and args[at] is None:
                args = (*args[:at], torch.float32, *args[at + 1 :])
            elif len(args) <= at:
                kwargs = {**kwargs, "dtype": torch.float32}
        return call(args, kwargs)

    def norm(*args: Any, **kwargs: Any) -> Any:
        if _is_cast(args[0]):
            return call((args[0].float(), *args[1:]), kwargs)
        return call(args, kwargs)

    def promote(*args: Any, **kwargs: Any) -> Any:
        found: list[torch.dtype] = []
        tree_map(lambda each: found.append(each.dtype) if _is_cast(each) else None, (args, kwargs))
        if torch.float32 in found:
            args, kwargs = tree_map(_to_float32, (args, kwargs))
        elif found:
            args, kwargs = tree_map(casts.to_low, (args, kwargs))
        return call(args, kwargs)

    def banned(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are not allowed under "
            'torch.autocast("cuda"). Use binary_cross_entropy_with_logits or BCEWithLogitsLoss.'
        )

    names = [each.name for each in operator._schema.arguments]
    return {
        "lower_precision_fp": lower_precision,
        "fp32": float32,
        "fp32_set_opt_dtype": float32_by_argument,
        "fp32_append_dtype": norm,
        "promote": promote,
        "banned": banned,
    }[category]


def _by_operator(lists: dict[str, list[str]]) -> dict[str, str]:
    return {name: kind for kind, names in lists.items() if kind != "undetermined" for name in names}


@contextlib.contextmanager
def _cuda_lists(casts: _Casts, fp8: str | None, is_eight_bit: Callable[[], bool]) -> Iterator[None]:
    """Autocast on the CPU follows CUDA's lists."""
    with open(_LISTS, encoding="utf-8") as file:
        devices = json.load(file)["devices"]
    cuda, cpu = _by_operator(devices["CUDA"]), _by_operator(devices["CPU"])
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that kernels are replaced is what is meant
            for name in sorted({*cuda, *cpu}):
                operator = _overload(name)
                if operator is None or cuda.get(name) == cpu.get(name):
                    continue
                kernel: Any = torch.library.fallthrough_kernel
                if name in cuda:
                    kernel = _kernel(cuda[name], operator, casts)
                library.impl(name, kernel, "AutocastCPU")
            if fp8 is not None:
                library.impl("linear", _eight_bit_linear(casts, fp8, is_eight_bit), "AutocastCPU")
        yield
    finally:
        library._destroy()


def _eight_bit_linear(
    casts: _Casts, granularity: str, applies: Callable[[], bool]
) -> Callable[..., Any]:
    plain = _kernel("lower_precision_fp", torch.ops.aten.linear.default, casts)

    def linear(value: Any, weight: Any, bias: Any = None) -> Any:
        if not applies():
            return plain(value, weight, bias)
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return eight_bit.linear(value, weight, bias, granularity, casts.low)

    return linear


# What the code asks of a region (device, dtype, enabled) -> what it gets.
_Change = Callable[[str, Any, bool], tuple[str, Any, bool]]


@contextlib.contextmanager
def _regions_changed(change: _Change) -> Iterator[None]:
    """`torch.autocast(…)` in the target's code is another region than it asks for."""
    mode = torch.amp.autocast_mode.autocast
    begin = mode.__init__

    def init(
        self: Any,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: Any = None,
    ) -> None:
        device, kind, on = change(device_type, dtype, enabled)
        begin(self, device, dtype=kind, enabled=on, cache_enabled=cache_enabled)

    mode.__init__ = init  # type: ignore[method-assign]
    try:
        yield
    finally:
        mode.__init__ = begin  # type: ignore[method-assign]


def _on_cpu(device: str, dtype: Any, enabled: bool) -> tuple[str, Any, bool]:
    return (
        ("cpu", dtype or torch.float16, enabled) if device == "cuda" else (device, dtype, enabled)
    )


@contextlib.contextmanager
def _cuda_means_cpu() -> Iterator[None]:
    """`torch.autocast("cuda")` and questions after it mean the CPU's region."""
    is_enabled, dtype_of = torch.is_autocast_enabled, torch.get_autocast_dtype

    patches: dict[str, Any] = {
        "is_autocast_enabled": lambda device="cpu": is_enabled("cpu"),
        "get_autocast_dtype": lambda device="cpu": dtype_of("cpu"),
        "get_autocast_gpu_dtype": lambda: dtype_of("cpu"),
    }
    known = {name: getattr(torch, name) for name in patches if hasattr(torch, name)}
    for name in known:
        setattr(torch, name, patches[name])
    try:
        with _regions_changed(_on_cpu):
            yield
    finally:
        for name, value in known.items():
            setattr(torch, name, value)


@contextlib.contextmanager
def full_precision(device: str) -> Iterator[None]:
    """The target without a policy: autocast regions of its own code do nothing, and a device
    multiplies in FP32, not in TF32, which cuDNN takes by default.
    """
    no_tf32 = contextlib.nullcontext() if device == "cpu" else full_float32()
    with _regions_changed(lambda asked, dtype, enabled: (device, None, False)), no_tf32:
        yield


@contextlib.contextmanager
def on_this_device(device: str) -> Iterator[None]:
    """The target as it is: regions of its own code for CUDA mean the CPU where that stands in, by
    the CPU's own lists. Torch's questions after them stay as they are: Dynamo asks them for each
    device.
    """
    if device != "cpu" or torch.cuda.is_available():
        yield
        return
    with _regions_changed(_on_cpu):
        yield


class Policy:
    """One of POLICIES, or AS_IT_RUNS, with the low dtype of `precision` (fp16, bf16, fp8), on
    `device`. `fp8`: with which scales FP8 is simulated, tensor, row or block.
    """

    def __init__(self, name: str, precision: str, device: str, fp8: str = "tensor") -> None:
        self.name = name
        self.precision = precision
        self.low = LOW[precision]
        self.device = device
        self._fp8 = fp8 if precision == "fp8" else None
        # Whether the linear layer that runs at this moment is one of those in FP8.
        self.is_eight_bit: Callable[[], bool] = lambda: True

    @property
    def emulated(self) -> list[str]:
        """What is not done by the device that the answer is for, as codes."""
        codes = []
        if self.name != "cpu-autocast" and self.device == "cpu":
            codes.append("cpu_arithmetic")
        if self._fp8 is not None:
            codes.append("fp8_simulated")
        return codes

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """The target may run as often as it is wanted to."""
        with contextlib.ExitStack() as stack:
            self._casts = _Casts(self.low)
            if self.device == "cpu" and self.name in ("cuda-autocast", AS_IT_RUNS):
                lists = _cuda_lists(self._casts, self._fp8, lambda: self.is_eight_bit())
                stack.enter_context(lists)
            if self.device == "cpu":
                stack.enter_context(_cuda_means_cpu())
            yield

    @contextlib.contextmanager
    def region(self) -> Iterator[None]:
        """Around one forward pass and its loss."""
        if self.name in ("pure", AS_IT_RUNS):
            yield
            return
        try:
            with torch.autocast(self.device, dtype=self.low):
                yield
        finally:
            self._casts.clear()
