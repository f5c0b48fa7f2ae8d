"""The same operator twice: in a replayed step each deterministic operator runs again in its own
type, on the operands that it had, and must give the same bits. Other bits mean hardware that errs
or a race; what is random or declares that it is not deterministic is left out and counted.

The training keeps what the first run gave. It belongs to one step; failing is none of the
training's business: what raises is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map

from ..fp64.call import tensors_of
from ..fp64.findings import NOT_REPRODUCED, Finding
from ..fp64.operators import DRAW, VIEW, Operator
from ..fp64.places import Site
from ..operators.as_called import run_as_called

MORE_RUNS = 2  # after two that differ: which of them is alone
MOST_FINDINGS = 16  # of a step

# Why an operator is left out, as the record shows it.
RANDOM, DECLARED, SENT, LARGE = "random", "not_deterministic", "between_devices", "too_large"
COMMUNICATION, FAILED = "communication", "failed"

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_ALERTS: Any = getattr(torch, "are_deterministic_algorithms_enabled", lambda: False)
_TAGS = tuple(
    tag
    for tag in (
        getattr(torch.Tag, name, None)
        for name in ("nondeterministic_seeded", "nondeterministic_bitwise")
    )
    if tag is not None
)
# Adds into places in no fixed order where several threads write them, on a CPU as well.
_ADDS = frozenset(("index_put", "_index_put_impl", "put", "histogram", "histc"))
# On devices: what torch.use_deterministic_algorithms() refuses or replaces, and kernels that add by
# atomic operations.
_ON_DEVICES = frozenset(
    "index_add index_copy index_reduce scatter scatter_add scatter_reduce gather_backward cumsum "
    "cumprod bincount kthvalue median nanmedian mode ctc_loss _ctc_loss _cudnn_ctc_loss "
    "nll_loss2d_forward nll_loss2d_backward embedding_dense_backward _embedding_bag "
    "_embedding_bag_forward_only segment_reduce max_unpool2d max_unpool3d grid_sampler_2d "
    "grid_sampler_3d masked_scatter unique_dim _unique2 convolution_backward resize".split()
)
_ENDS_ON_DEVICES = (
    "_attention_backward",
    "_attention_for_cpu_backward",
    "sampler_2d_backward",
    "sampler_3d_backward",
    "pool2d_backward",
    "pool3d_backward",
    "indices_backward",
    "pad1d_backward",
    "pad2d_backward",
    "pad3d_backward",
    "bag_backward",
    "loss_backward",
)
_PARTS = ("upsample", "cudnn_rnn", "_rnn")
_WORKSPACES = ("attention", "rnn", "lstm", "gru", "cudnn", "mkldnn")  # more than their result


@dataclass(slots=True)
class _Again:
    """How a call is repeated. `copies`: what it writes, before it did, by memory."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    copies: dict[int, torch.UntypedStorage]
    written: list[torch.Tensor]
    only_first: bool  # of its results; the others may be workspace
    states: list[tuple[torch.Generator, torch.Tensor]]  # before it ran


class Replay:
    """Of one step. `most_bytes`: that copies of what an operator writes may take; `rank`: of this
    process, where there are several.
    """

    def __init__(self, most_bytes: int, rank: int | None = None) -> None:
        self.found: list[Finding] = []
        self.replayed = 0
        self.left_out: Counter[str] = Counter()
        self._most_bytes = most_bytes
        self._rank = rank

    def before(
        self, func: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Again | None:
        """The operator is about to run; None where it is not repeated."""
        if operator.kind is VIEW or operator.allocates or not operator.schema_name:
            return None
        if operator.name == "aten._local_scalar_dense":
            return None
        why = _reason(func, operator, args, kwargs)
        if why:
            self.left_out[why] += 1
            return None
        written = [
            each
            for value in operator.written_values(args, kwargs)
            for each in tensors_of(value)
            if each.numel()
        ]
        storages = {each.untyped_storage()._cdata: each.untyped_storage() for each in written}
        if sum(each.nbytes() for each in storages.values()) > self._most_bytes:
            self.left_out[LARGE] += 1
            return None
        copies = {key: each.clone() for key, each in storages.items()}
        name = operator.schema_name
        only_first = any(each in name for each in _WORKSPACES)
        return _Again(func, args, kwargs, copies, written, only_first, _drawn(func))

    def after(self, again: _Again, operator: Operator, site: Site | None, result: Any) -> None:
        """It has run, and gave `result`."""
        first = _values(again, result, again.written)
        if not first:
            return
        if any(not torch.equal(each.get_state(), state) for each, state in again.states):
            self.left_out[RANDOM] += 1
            return
        self.replayed += 1
        second = self._run(again)
        differs = _first_other(first, second)
        if differs is None:
            return
        runs = [first, second, *(self._run(again) for _ in range(MORE_RUNS))]
        alone = _alone(runs)
        if len(self.found) < MOST_FINDINGS:
            self.found.append(self._finding(operator, site, first, second, differs, alone is None))

    def _run(self, again: _Again) -> list[torch.Tensor]:
        """Once more, on fresh copies of what it writes."""
        working = {key: each.clone() for key, each in again.copies.items()}

        def placed(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            storage = working.get(value.untyped_storage()._cdata)
            return value if storage is None else _on(storage, value)

        args, kwargs = again.args, again.kwargs
        if working:
            args, kwargs = tree_map(placed, (args, kwargs))
        result = run_as_called(again.func, args, kwargs)
        return _values(again, result, [placed(each) for each in again.written])

    def _finding(
        self,
        operator: Operator,
        site: Site | None,
        first: list[torch.Tensor],
        second: list[torch.Tensor],
        at: int,
        each_time: bool,
    ) -> Finding:
        one, other = first[at], second[at]
        differ = bits_of(one) != bits_of(other)
        count = int(differ.sum())
        wide, wide_other = one.detach().double(), other.detach().double()
        finite = wide.isfinite() & wide_other.isfinite()
        size = float(wide[finite].norm()) if not one.is_complex() else 0.0
        apart = float((wide - wide_other)[finite].norm()) if size else 0.0
        detail: dict[str, Any] = {"device": str(one.device), "elements": count}
        if self._rank is not None:
            detail["rank"] = self._rank
        if each_time:
            detail["each_time"] = True
        return Finding(
            NOT_REPRODUCED,
            site or Site(operator.name, operator.name, "forward", "", 0, None),
            self.replayed,
            str(one.dtype).removeprefix("torch."),
            str(tuple(one.shape)),
            count / max(1, differ.numel()),
            float(wide[finite].abs().max()) if bool(finite.any()) else 0.0,
            0.0,
            apart / size if size else 0.0,
            severity="WARNING" if each_time else "ERROR",
            detail=detail,
        )


def _reason(func: Any, operator: Operator, args: Any, kwargs: Any) -> str:
    """Why an operator is not repeated; "" if it is."""
    namespace, _, name = operator.schema_name.partition("::")
    if operator.receives or "c10d" in namespace or namespace in ("symm_mem", "fsdp", "_dtensor"):
        return COMMUNICATION
    if operator.kind is DRAW:
        return RANDOM if operator.draws(args, kwargs) else ""
    if any(tag in func.tags for tag in _TAGS):
        return DECLARED
    tensors = [*tensors_of(args), *tensors_of(tuple(kwargs.values()))]
    devices = {each.device for each in tensors}
    if len({each.type for each in devices}) > 1 or _goes_elsewhere(kwargs, devices):
        return SENT
    base = name.removesuffix("_")
    if base in _ADDS:
        return DECLARED
    on_device = any(each.type != "cpu" for each in devices)
    if on_device and namespace == "aten" and not _ALERTS() and _is_unordered(base):
        return DECLARED
    return ""


def _goes_elsewhere(kwargs: dict[str, Any], devices: set[torch.device]) -> bool:
    to = kwargs.get("device")
    return (
        to is not None
        and bool(devices)
        and torch.device(to).type not in {each.type for each in devices}
    )


def _is_unordered(name: str) -> bool:
    if name in _ON_DEVICES or name.endswith(_ENDS_ON_DEVICES):
        return True
    if any(each in name for each in _PARTS) and name.endswith("backward"):
        return True
    cudnn: Any = torch.backends.cudnn
    return "convolution" in name and cudnn.benchmark and not cudnn.deterministic


def _values(again: _Again, result: Any, written: list[torch.Tensor]) -> list[torch.Tensor]:
    """What a run gave: its results, and what it has written."""
    memories = {each.untyped_storage()._cdata for each in written}
    made = [each for each in tensors_of(result) if each.untyped_storage()._cdata not in memories]
    if again.only_first:
        made = made[:1]
    return [each for each in (*made, *written) if each.numel() and each.layout is torch.strided]


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """As whole numbers, so that a NaN is itself."""
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.is_floating_point():
        return tensor.view(_BITS[tensor.element_size()])
    return tensor


def _first_other(one: list[torch.Tensor], other: list[torch.Tensor]) -> int | None:
    """Which of the values has other bits; None where none has."""
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a.shape != b.shape or a.dtype != b.dtype or not torch.equal(bits_of(a), bits_of(b)):
            return at
    return None


def _alone(runs: list[list[torch.Tensor]]) -> int | None:
    """The one run that gave something else than all others, which agree; None where there is no
    such.
    """
    for at in range(len(runs)):
        others = [each for number, each in enumerate(runs) if number != at]
        if all(_first_other(others[0], each) is None for each in others[1:]):
            return at
    return None


def _on(storage: torch.UntypedStorage, like: torch.Tensor) -> torch.Tensor:
    """The same part of another memory."""
    made = torch.empty(0, dtype=like.dtype, device=like.device)
    made.set_(storage, like.storage_offset(), like.size(), like.stride())  # type: ignore[call-overload]
    return made


def _drawn(func: Any) -> list[tuple[torch.Generator, torch.Tensor]]:
    """The states of the generators, for an operator of another library, which may draw without
    saying so.
    """
    if str(getattr(func, "namespace", "aten")).startswith(("aten", "prim")):
        return []
    return [(each, each.get_state()) for each in _generators()]


def _generators() -> Iterator[torch.Generator]:
    yield torch.default_generator
    if torch.cuda.is_initialized():
        yield torch.cuda.default_generators[torch.cuda.current_device()]


def rank_of_process() -> int | None:
    """None where there is one process."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank() if distributed.get_world_size() > 1 else None
