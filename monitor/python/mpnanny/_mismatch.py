"""log_mismatch: trainer and rollout engine should give the same log-probabilities to the same
tokens; what they differ by goes into the run's record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .mismatch.listener import log


def log_mismatch(
    trainer_logprobs: torch.Tensor | Sequence[Any],
    rollout_logprobs: torch.Tensor | Sequence[Any],
    mask: Any = None,
    positions: Any = None,
    documents: Any = None,
    tokens: Any = None,
    *,
    step: int | None = None,
    synced: bool | None = None,
    experts: tuple[Any, Any] | None = None,
    hidden: torch.Tensor | None = None,
    head: torch.Tensor | None = None,
) -> None:
    """Records how far the log-probabilities of a trainer and of the engine that sampled the tokens
    are apart. Call it once an update, before the weights change, with that update's tokens;
    `mpnanny mismatch RUN` (the tool compare_logprobs) then says how far, and by which shape.

    `trainer_logprobs`, `rollout_logprobs`: natural logarithms, [batch, length], [tokens] of packed
    rows, or lists of [tokens]; a token's stands at its own place. `mask`: not zero where a token
    counts, which are the sampled ones. `positions`: of each token in its own document. `documents`:
    integers that change where another document of a packed row begins; without them a position that
    falls says so. `tokens`: ids. All of the same shape. `step`: the number of the update. `synced`:
    whether the engine has got the trainer's weights since the last call. `experts`: (trainer,
    rollout), integers [..., layers, k] or [..., k], to which experts each token went. `hidden`
    [..., width] and `head` [vocabulary, width], with `tokens`: the trainer's last hidden states and
    the weight of its output head; then what other formats of the head, another temperature, top-k
    and top-p would have given is computed from them and compared.

    Returns nothing, raises nothing, waits for no device and draws no random numbers. Without a
    monitor (MixedPrecisionNanny, `mpnanny run`) the last 64 calls wait for one to begin.
    """
    optional = {
        "mask": mask,
        "positions": positions,
        "documents": documents,
        "tokens": tokens,
        "experts": experts,
    }
    log((trainer_logprobs, rollout_logprobs), optional, step, synced, (hidden, head))
