"""What a shadow step has to know of an operator, looked up once from its schema."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

# What becomes of an operator in a shadow step.
SKIP = "skip"  # makes no values: memory that nobody has written yet, bookkeeping, communication
VIEW = "view"  # another look at the same memory, whose reference is there already
DRAW = "draw"  # random: the draw that was made is kept
PLAIN = "plain"  # run a second time

_SILENT = frozenset(("profiler", "prim", "prims", "rngprims", "_c10d_functional", "c10d"))
_NO_VALUES = ("empty", "new_empty", "_efficientzerotensor", "resize", "set_", "record_stream")
_OVERWRITE = frozenset(
    "copy_ fill_ zero_ normal_ uniform_ random_ bernoulli_ exponential_ cauchy_ log_normal_"
    " geometric_".split()
)
# torch writes these arguments without saying so in the schema.
HIDDEN_WRITES = {
    "aten::native_batch_norm": (3, 4),
    "aten::cudnn_batch_norm": (3, 4),
    "aten::miopen_batch_norm": (3, 4),
}
_TRAINS = 5  # their argument that says whether they do
# Whose third argument says that half goes in and float comes out.
SOFTMAX = frozenset(("aten::_softmax", "aten::_log_softmax"))
# Arguments of which only the side of a threshold counts: such a decision is the held one's, as
# those of comparisons and argmax are.
DECISIONS = {
    "aten::threshold_backward": 1,
    "aten::leaky_relu_backward": 1,
    "aten::hardtanh_backward": 1,
    "aten::hardsigmoid_backward": 1,
    "aten::sgn": 0,
    "aten::sign": 0,
}
# Make whole numbers of floating-point ones: of a cast it is not known what they are for, the others
# make indices.
INTEGERS_OF_FLOATS = frozenset(("aten::_to_copy", "aten::searchsorted", "aten::bucketize"))
# Whether a seeded operator draws at all, by the name of its probability.
_DROPS = ("dropout_p", "p", "drop_p")

# The largest numbers of formats that people clamp to before a cast (FP8, FP16): such a clamp is a
# part of the cast, and what it cuts off is lost by it. Not those of int8: how much of its tails a
# quantizer cuts off is its own choice, and its values stay in FP32.
_CAST_LIMITS = frozenset((240.0, 448.0, 57344.0, 65504.0))

FLOATS = frozenset(
    (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex32,
        torch.complex64,
        torch.complex128,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    )
)
COMPLEX = frozenset((torch.complex32, torch.complex64, torch.complex128))


class Operator:
    """One overload, as `aten.add.Tensor`."""

    __slots__ = (
        "allocates",
        "arguments",
        "change",
        "is_list",
        "is_uncounted",
        "kind",
        "name",
        "overwrites",
        "receives",
        "schema_name",
        "written",
        "written_names",
    )

    def __init__(self, function: Any) -> None:
        self.name = str(function).removesuffix(".default")
        self.kind = SKIP
        self.written: tuple[int, ...] = ()  # positions of the arguments that are written
        self.written_names: tuple[str, ...] = ()
        self.is_list = self.is_uncounted = self.overwrites = self.change = False
        self.arguments: tuple[str, ...] = ()
        # Its first argument gets values from other processes, also after it has returned.
        self.receives = False
        self.allocates = False  # makes memory without values
        self.schema_name = ""
        schema = getattr(function, "_schema", None)
        if schema is None:
            return  # an operator of higher order
        self.schema_name = schema.name
        namespace, _, rest = schema.name.partition("::")
        self.receives = namespace == "c10d"
        self.allocates = namespace == "aten" and rest.startswith(("empty", "new_empty"))
        if namespace in _SILENT or rest.startswith(_NO_VALUES):
            return
        self.arguments = tuple(argument.name for argument in schema.arguments)
        self.is_list = rest.startswith(("_foreach", "_fused", "_amp_foreach"))
        self.is_uncounted = rest.startswith("_foreach")
        written = [
            (at, argument)
            for at, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        self.written = tuple(at for at, argument in written if not argument.kwarg_only)
        self.written += HIDDEN_WRITES.get(schema.name, ())
        self.written_names = tuple(argument.name for _, argument in written)
        self.overwrites = rest in _OVERWRITE or bool(
            written and all(argument.kwarg_only for _, argument in written)
        )
        # What an optimizer, an average or a counter is changed by: the new value comes of the old.
        self.change = bool(self.written) and not self.overwrites and rest.endswith("_")
        self.change = self.change or rest == "copy_"
        if not written and any(each.alias_info is not None for each in schema.returns):
            self.kind = VIEW
        elif torch.Tag.nondeterministic_seeded in function.tags:
            self.kind = DRAW
        else:
            self.kind = PLAIN

    def writes(self, args: tuple[Any, ...]) -> tuple[int, ...]:
        """Positions of the arguments that this call writes: a batch norm in evaluation only reads
        its statistics.
        """
        if self.schema_name in HIDDEN_WRITES and args[_TRAINS : _TRAINS + 1] == (False,):
            return ()
        return self.written

    def written_values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
        """The arguments that this call writes; of an operator that other processes write for, what
        they write.
        """
        for at in (0,) if self.receives else self.writes(args):
            if at < len(args):
                yield args[at]
        for name in self.written_names:
            if name in kwargs:
                yield kwargs[name]

    def draws(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether this call draws: attention with dropout does not at a probability of 0."""
        if self.kind != DRAW:
            return False
        for name in _DROPS:
            if name in self.arguments:
                value = self.argument(name, args, kwargs)
                if isinstance(value, (int, float)):
                    return value > 0
                if name == "dropout_p":  # its default
                    return value is not None
        return True

    def argument(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The argument `name` of a call, None where it was left to its default."""
        if name in kwargs:
            return kwargs[name]
        at = self.arguments.index(name) if name in self.arguments else len(args)
        return args[at] if at < len(args) else None

    def clamps_to_format(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """A clamp to the range of a format, as before a cast to it."""
        if not self.schema_name.startswith("aten::clamp"):
            return False
        bounds = [self.argument(name, args, kwargs) for name in ("min", "max")]
        return all(isinstance(each, (int, float)) for each in bounds) and all(
            abs(float(each)) in _CAST_LIMITS for each in bounds
        )


_operators: dict[Any, Operator] = {}


def operator_of(function: Any) -> Operator:
    known = _operators.get(function)
    if known is None:
        known = _operators[function] = Operator(function)
    return known


def holds_nonfinite_number(value: Any, depth: int = 0) -> bool:
    """Whether a number among the arguments is not finite, as the -inf of a mask."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, (tuple, list)) and depth < 3:
        return any(holds_nonfinite_number(each, depth + 1) for each in value)
    if isinstance(value, dict):
        return any(holds_nonfinite_number(each, depth + 1) for each in value.values())
    return False
