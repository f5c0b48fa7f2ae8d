"""What roundings alone do to a program: each operator that rounds gives a result that is off by a
few units in the last place, at random. Runs with different noise part as far as two right programs
may that round otherwise (another order of a sum, a fused operator, another kernel).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from ..operators.places import pass_through

pass_through(__file__)

# Units in the last place. A kernel of FP32 may use another approximation of a function and another
# order of a sum; one of 16 bits computes in FP32 and rounds once, or not at all where it is fused.
_UNITS = {torch.float16: 1.0, torch.bfloat16: 1.0}
_OTHER_UNITS = 4.0
_TERMS = 16.0  # of a sum, whose root makes its error as much larger again
_BITS = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23, torch.float64: 52}

# Operators that move, choose or make values and round nothing. A cast is one of them: what the
# program itself asks to be rounded is no accident of the kernels.
EXACT = frozenset(
    "abs neg relu threshold clamp clamp_min clamp_max hardtanh max min amax amin maximum minimum "
    "fmax fmin sort topk argsort kthvalue median mode sign sgn floor ceil round trunc where "
    "masked_fill masked_scatter masked_select fill zero zeros ones full zeros_like ones_like "
    "full_like empty empty_like empty_strided new_empty new_zeros new_ones new_full arange "
    "linspace eye tril triu clone copy contiguous detach alias lift_fresh _to_copy to cat stack "
    "gather index index_select index_put select slice scatter embedding expand repeat flip roll "
    "pad constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d "
    "replication_pad2d max_pool1d max_pool2d max_pool3d max_pool2d_with_indices "
    "max_pool3d_with_indices floor_divide fmod remainder heaviside logical_and bitwise_and "
    "select_scatter slice_scatter diagonal_scatter as_strided_scatter unfold im2col permute_copy "
    "rand randn rand_like randn_like randint bernoulli uniform normal native_dropout random "
    "exponential geometric log_normal cauchy multinomial threshold_backward copysign nan_to_num "
    "convert_element_type iota take take_along_dim unique isfinite "
    "_unsafe_view view reshape squeeze_copy real imag complex view_as_real view_as_complex "
    "fractional_max_pool2d".split()
)


def name_of(operator: Any) -> str:
    """`add` of aten.add_.Tensor."""
    name: str = operator._schema.name.rpartition("::")[2]
    return name.removesuffix("_") if not name.endswith("__") else name


def draws(operator: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ())


def shaken(tensor: torch.Tensor, draw: torch.Generator, strength: float) -> None:
    """Moves it by some units in the last place, in place. Whole numbers and zeros stay: they are
    mostly exact, and what is counted or compared with must not move.
    """
    bits = _BITS.get(tensor.dtype)
    if bits is None or not tensor.numel():
        return
    if _overlaps(tensor):
        return
    units = strength * _UNITS.get(tensor.dtype, _OTHER_UNITS)
    wide = tensor.to(torch.float64)
    noise = torch.rand(tensor.shape, generator=draw, dtype=torch.float32).to(wide.device)
    moved = wide * (1.0 + (noise.to(torch.float64) * 2 - 1) * (units * 2.0**-bits))
    whole = (wide == wide.trunc()) & (wide.abs() < 2.0 ** (bits - 1))
    tensor.copy_(torch.where(whole | ~wide.isfinite(), wide, moved))


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether several elements lie in one place."""
    return any(
        stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


class Noise(TorchDispatchMode):
    """`strength`: times the units above. `where`: only operators for which it is true, as they run.
    Generators of the program are left alone.
    """

    def __init__(
        self, seed: int, strength: float = 1.0, where: Callable[[], bool] | None = None
    ) -> None:
        super().__init__()
        self._where = where
        self._draw = torch.Generator().manual_seed(seed)
        self._strength = strength

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.is_view or name_of(func) in EXACT:
            return func(*args, **kwargs)
        if self._where is not None and not self._where():
            return func(*args, **kwargs)
        strength = self._strength
        adds_up = torch.Tag.pointwise not in func.tags
        # An operator of the program's own may write what it does not say that it writes.
        if adds_up and not func._schema.is_mutable and func.namespace == "aten":
            args, kwargs = tree_map(self._operand, (args, kwargs))
        made = func(*args, **kwargs)
        written = [each for each in tree_leaves(made) if _is_plain(each)]
        if adds_up:
            terms = max((e.numel() for e in tree_leaves(args) if _is_plain(e)), default=1)
            results = max(1, max((each.numel() for each in written), default=1))
            strength *= 1.0 + (terms / results) ** 0.5 / _TERMS
        for each in written:
            shaken(each, self._draw, strength)
        return made

    def _operand(self, value: Any) -> Any:
        """A copy whose elements are a rounding off: the terms of a sum in another order."""
        if not _is_plain(value) or value.dtype not in (torch.float32, torch.float64):
            return value
        made = value.clone()
        shaken(made, self._draw, self._strength)
        return made


def _is_plain(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and type(value) in (torch.Tensor, torch.nn.Parameter)
