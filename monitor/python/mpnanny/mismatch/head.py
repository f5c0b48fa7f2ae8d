"""What the output head would give in other formats, and with another way of sampling: computed from
the trainer's own hidden states, and compared with the log-probabilities of both sides.

It is tried and measured: where the rollout's numbers come out of one of these ways and the
trainer's out of FP32, the head is what differs; where no way brings them nearer, the hidden states
differ already.
"""

from __future__ import annotations

from typing import Any

import torch

from ..base.later import Parcel

MOST_TOKENS = 192  # of a call
MOST_LOGITS = 1 << 24
OTHER_TOKENS = 32  # of them, for ways that are many
# In steps of 5 %, and what people write.
TEMPERATURES = tuple(
    sorted(
        {0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.5, 2.0}
        | {round(1.05**power, 3) for power in range(-20, 21) if power}
    )
)
SOFT_CAPS = (5.0, 10.0, 15.0, 20.0, 30.0, 50.0)
TOP_K = (5, 10, 20, 40, 50, 64, 100)
TOP_P = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
MOST_SORTED = 1024

# name, value (of temperature, soft cap, top-k and top-p; else 0)
Way = tuple[str, float]
# and the rest to the trainer and to the rollout
Try = tuple[str, float, float, float]


class HeadTries:
    """Of one call. `value()` once it has arrived: `(tokens, [(name, value, trainer_rest,
    rollout_rest)])`, rests as rms in nats.
    """

    def __init__(self, hidden: Any, head: Any, tokens: Any, mask: Any, sides: tuple[Any, Any]):
        states = hidden.detach().reshape(-1, hidden.shape[-1])
        weight = head.detach()
        device = states.device
        flat = [torch.as_tensor(each).detach().to(device).reshape(-1) for each in (tokens, *sides)]
        count = flat[0].numel()
        if states.shape[0] != count or weight.dim() != 2 or weight.shape[1] != states.shape[1]:
            raise ValueError(
                f"hidden {list(hidden.shape)} and head {list(weight.shape)} do not fit the"
                f" {count} tokens"
            )
        counts = torch.ones(count, device=device)
        if mask is not None:
            counts = (torch.as_tensor(mask).detach().to(device).reshape(-1) != 0).float()
        # Whether the state of a token's own place gives its log-probability, or that of the place
        # before: the first token has none before it.
        counts[:1] = 0
        most = min(MOST_TOKENS, max(8, MOST_LOGITS // weight.shape[0]), count)
        # The choice is spread over the tokens and waits for no device.
        spread = torch.arange(count, device=device) * 2654435761 % 1000003
        picked = (counts * (1 + spread / 1000003)).topk(most).indices
        self._weights = counts[picked]
        ids, trainer, rollout = (each[picked] for each in flat)
        self._sides = (trainer.double(), rollout.double())
        self._ids = ids.long().unsqueeze(1)
        self.ways: list[Way] = []
        rows = [self._weights.sum().double()]
        for states_of in (states[picked], states[picked - 1]):
            self.ways = []
            rows.extend(self._tried(states_of, weight))
        self._parcel = Parcel(torch.stack(rows))

    def _tried(self, states: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        exact = states.float() @ weight.float().T
        found = [*self._rests("fp32", 0, exact)]
        for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
            low = states.to(dtype).float() @ weight.to(dtype).float().T
            rounded = low.to(dtype).float()
            found += self._rests(f"head_{name}", 0, low)
            found += self._rests(f"logits_{name}", 0, exact.to(dtype).float())
            found += self._rests(f"head_and_logits_{name}", 0, rounded)
            found += self._rests(f"log_softmax_{name}", 0, rounded, dtype)
        for temperature in TEMPERATURES:
            found += self._rests("temperature", temperature, exact[:OTHER_TOKENS] / temperature)
        for cap in SOFT_CAPS:
            found += self._rests("softcap", cap, cap * torch.tanh(exact / cap))
        found += self._truncated(exact)
        return found

    def _rests(
        self,
        name: str,
        value: float,
        logits: torch.Tensor,
        result: torch.dtype | None = None,
    ) -> list[torch.Tensor]:
        ids = self._ids[: logits.shape[0]]
        chosen = logits.gather(1, ids).squeeze(1) - logits.logsumexp(1)
        return self._compared(name, value, chosen.to(result).float() if result else chosen)

    def _compared(self, name: str, value: float, chosen: torch.Tensor) -> list[torch.Tensor]:
        self.ways.append((name, value))
        weights = self._weights[: chosen.numel()].double()
        found = []
        for side in self._sides:
            rest = (chosen.double() - side[: chosen.numel()]) ** 2 * weights
            found.append((rest.nan_to_num(1e6, 1e6, 1e6).sum() / weights.sum().clamp_min(1)).sqrt())
        return found

    def _truncated(self, logits: torch.Tensor) -> list[torch.Tensor]:
        """Renormalised over the tokens that top-k or top-p keeps."""
        total = logits.logsumexp(1)
        chosen = logits.gather(1, self._ids).squeeze(1) - total
        sorted_ = logits.topk(min(MOST_SORTED, logits.shape[1])).values
        mass = (sorted_ - total.unsqueeze(1)).exp().cumsum(1)
        found = []
        for k in TOP_K:
            kept = mass[:, min(k, mass.shape[1]) - 1]
            found += self._compared("top_k", k, chosen - kept.log())
        for p in TOP_P:
            last = (mass < p).sum(1).clamp_max(mass.shape[1] - 1)
            kept = mass.gather(1, last.unsqueeze(1)).squeeze(1)
            found += self._compared("top_p", p, chosen - kept.log())
        return found

    def arrived(self) -> bool:
        return self._parcel.arrived()

    def value(self) -> tuple[int, list[Try]]:
        """Of the alignment of hidden states that comes nearer to either side. Waits where it has
        not arrived.
        """
        self._parcel.wait()
        numbers = self._parcel.value.tolist()
        half = (len(numbers) - 1) // 2
        tries = []
        for first in (1, 1 + half):
            rests = numbers[first : first + half]
            tries.append(
                [
                    (name, value, rests[2 * index], rests[2 * index + 1])
                    for index, (name, value) in enumerate(self.ways)
                ]
            )
        best = min(tries, key=lambda each: min(min(row[2:]) for row in each))
        return int(numbers[0]), _nearest(best)


def _nearest(tries: list[Try]) -> list[Try]:
    """All formats; of ways that have a number those that come nearest to either side."""
    kept = [each for each in tries if not each[1]]
    for name in {each[0] for each in tries if each[1]}:
        same = [each for each in tries if each[0] == name]
        nearest = {min(same, key=lambda each: each[side]) for side in (2, 3)}
        kept.extend(sorted(nearest))
    return kept
