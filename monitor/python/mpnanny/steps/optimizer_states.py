"""What an optimizer's step does to the weights, and what the optimizer keeps of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch

from ..model.kinds import watches
from ..model.selection import Watched
from .state import RunState
from .step import to_float

# tensor_stats.slot of an optimizer's state, by its name (monitor/core/catalogue.cc has the same).
SLOTS = {
    name: slot
    for slot, name in enumerate(
        (
            *("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg"),
            *("grad_avg", "sum", "acc_delta", "exp_inf", "prev", "step_size", "ax", "row_var"),
            *("col_var", "variance", "master_param"),
        )
    )
}
OTHER_SLOTS = 32  # the first slot of names that are not in the list; an event tells which
# A state with one of these in its name keeps what the weight itself is too coarse for.
_COMPENSATING = ("master", "kahan", "compens", "shift")


class OptimizerStates:
    """Reads weights, gradients and state round each optimizer's step, in sampled steps.
    `event(step, type, detail)`: the core's. `is_kept(weight)`: whether it was measured that nothing
    gets lost where this weight stays as it is.
    """

    def __init__(
        self,
        state: RunState,
        kinds: int,
        event: Callable[[int | None, str, str | None], None],
        is_kept: Callable[[torch.Tensor], bool],
    ) -> None:
        self._state = state
        self._is_kept = is_kept
        self._event = event
        self._updates = watches(kinds, "update")
        self._states = watches(kinds, "optimizer_state")
        self._other: dict[str, int] = {}

    def before(self, held: Watched) -> None:
        if self._updates:
            self._state.reader.before_update(held.layers, held.parameters)

    def after(self, optimizer: Any, held: Watched, step: int) -> None:
        if not self._updates and not self._states:
            return
        groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        # Not optimizer.state[p]: it is a defaultdict, and asking would put an entry in.
        states = [optimizer.state.get(p) for p in held.parameters]
        if self._updates:
            judge = [
                to_float(groups.get(id(p), {}).get("lr")) != 0.0
                and not _compensates(state)
                and not self._is_kept(p)
                for p, state in zip(held.parameters, states, strict=True)
            ]
            gradients = [p.grad for p in held.parameters]
            self._state.reader.after_update(held.layers, held.parameters, gradients, judge)
        if self._states:
            self._read_states(held, states, groups, step)

    def _read_states(
        self, held: Watched, states: list[Any], groups: dict[int, Any], step: int
    ) -> None:
        layers: list[int] = []
        slots: list[int] = []
        tensors: list[torch.Tensor] = []
        eps: list[float] = []
        for layer, parameter, state in zip(held.layers, held.parameters, states, strict=True):
            if not isinstance(state, dict):
                continue
            for name, value in state.items():
                if name == "step" or not isinstance(value, torch.Tensor):
                    continue
                if value.numel() < 2 and value.shape != parameter.shape:
                    continue  # a count or a product
                layers.append(layer)
                slots.append(self._slot(str(name), step))
                tensors.append(value)
                eps.append(to_float(groups.get(id(parameter), {}).get("eps")) or 0.0)
        if tensors:
            self._state.reader.optimizer_states(layers, slots, tensors, eps)

    def _slot(self, name: str, step: int) -> int:
        known = SLOTS.get(name)
        if known is not None:
            return known
        if name not in self._other:
            self._other[name] = OTHER_SLOTS + len(self._other)
            detail = {"slot": self._other[name], "name": name}
            self._event(step, "optimizer_state_slot", json.dumps(detail))
        return self._other[name]


def _compensates(state: Any) -> bool:
    return isinstance(state, dict) and any(
        word in str(name) for name in state for word in _COMPENSATING
    )
