"""One call of log_mismatch as one block of numbers: rows of tokens, in FP64, on their way to the
host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._core import logprob_mismatch
from ..base.later import Parcel

MOST_TOKENS = 1 << 20  # of a call; of more, whole rows are left out evenly

# In the order of the core's bits.
OPTIONAL = ("mask", "positions", "documents", "tokens", "experts")

Given = torch.Tensor | Sequence[Any]


class Batch:
    """Figures of one call, once they have arrived. Raises ValueError for tensors that do not fit
    each other.
    """

    def __init__(self, trainer: Given, rollout: Given, optional: dict[str, Any]) -> None:
        first = _rows(trainer, "trainer_logprobs")
        lengths = [row.numel() for row in first]
        self._length = max(lengths, default=0)
        self.tokens = sum(lengths)
        self.skipped = 0  # rows that were too many
        second = _rows(rollout, "rollout_logprobs")
        _same(lengths, second, "rollout_logprobs")
        chosen = self._chosen(len(first))
        parts = [self._block(first, chosen), self._block(second, chosen)]
        self._given = 0
        ragged = len(set(lengths)) > 1
        if ragged and optional.get("mask") is None:
            optional = {**optional, "mask": [torch.ones(length) for length in lengths]}
        for bit, name in enumerate(OPTIONAL):
            value = optional.get(name)
            if value is None:
                continue
            rows = _rows(value, name)
            _same(lengths, rows, name)
            parts.append(self._block(rows, chosen))
            self._given |= 1 << bit
        self._rows = len(chosen)
        devices = {part.device for part in parts if part.device.type != "cpu"}
        device = next(iter(devices), torch.device("cpu"))
        block = torch.stack([part.to(device, torch.float64) for part in parts])
        self._parcel = Parcel(block)

    def _chosen(self, rows: int) -> list[int]:
        most = max(1, MOST_TOKENS // max(self._length, 1))
        if rows <= most:
            return list(range(rows))
        self.skipped = rows - most
        return [index * rows // most for index in range(most)]

    def _block(self, rows: list[torch.Tensor], chosen: list[int]) -> torch.Tensor:
        """Rows of one length, one behind the other; what is added counts for nothing."""
        picked = [rows[index] for index in chosen]
        if all(row.numel() == self._length for row in picked):
            return torch.cat(picked) if picked else torch.zeros(0)
        return torch.cat(
            [torch.nn.functional.pad(row, (0, self._length - row.numel())) for row in picked]
        )

    def arrived(self) -> bool:
        return self._parcel.arrived()

    def figures(self) -> tuple[str, list[str]] | None:
        """As _core.logprob_mismatch gives them. Waits where they have not arrived."""
        self._parcel.wait()
        block = self._parcel.value.contiguous()
        return logprob_mismatch(block, self._rows, self._length, self._given)


def _rows(value: Given, name: str) -> list[torch.Tensor]:
    """[batch, length], [tokens] or a list of [tokens], as rows."""
    if isinstance(value, (list, tuple)):
        return [torch.as_tensor(each).detach().reshape(-1) for each in value]
    tensor = torch.as_tensor(value).detach()
    if tensor.dim() > 2:
        raise ValueError(f"{name} has the shape {list(tensor.shape)}; [batch, length] is expected")
    return list(tensor.reshape(-1, tensor.shape[-1] if tensor.dim() else 1).unbind())


def _same(lengths: list[int], rows: list[torch.Tensor], name: str) -> None:
    if [row.numel() for row in rows] != lengths:
        found = f"{len(rows)} rows of {sum(row.numel() for row in rows)} tokens together"
        raise ValueError(
            f"{name} does not fit trainer_logprobs: {found}, not {len(lengths)} rows"
            f" of {sum(lengths)}"
        )


def other_experts(experts: Any, like: Given) -> torch.Tensor | None:
    """(trainer, rollout), each of the tokens' shape and [layers, k] or [k] behind it: 1 where a
    token went to other experts in any layer. `like`: of the tokens' shape.
    """
    if experts is None:
        return None
    trainer, rollout = (torch.as_tensor(each).detach() for each in experts)
    if trainer.shape != rollout.shape:
        raise ValueError(f"experts: {list(trainer.shape)} and {list(rollout.shape)} do not fit")
    differ = trainer.sort(-1).values != rollout.to(trainer.device).sort(-1).values
    shape = like.shape if isinstance(like, torch.Tensor) else trainer.shape[:-1]
    if trainer.shape[: len(shape)] != shape:
        found = f"{list(trainer.shape)} does not begin as {list(shape)}"
        raise ValueError(f"experts: {found}, the shape of trainer_logprobs")
    return differ.reshape(*shape, -1).any(-1)
