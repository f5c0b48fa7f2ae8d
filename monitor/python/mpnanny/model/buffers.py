"""Buffers that are not finite: what a module computes with them is not either."""

from __future__ import annotations

import json

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from .._core import figures, nonfinite
from ..base.record import Record
from ..operators.origins import NAN, POSINF


def broken_buffers(module: nn.Module, record: Record) -> tuple[str, str]:
    """Which of the module's own buffers can be the reason for a bad output, in words and as
    a JSON array; "" if none. A batch norm that trains only writes its running statistics. -inf
    alone is a mask.
    """
    if isinstance(module, _NormBase) and module.training:
        return "", ""
    broken, facts = [], []
    for name, buffer in module._buffers.items():
        if buffer is None or not nonfinite(buffer) & (NAN | POSINF):
            continue
        nan, posinf, neginf, numel, _ = figures(buffer)
        parts = ((nan, "NaN"), (posinf, "+Inf"), (neginf, "-Inf"))
        counts = " and ".join(f"{count} {what}" for count, what in parts if count)
        broken.append(f"{name} ({counts} of {numel})")
        facts.append(
            {
                "name": record.layer(name),
                "nan": nan,
                "posinf": posinf,
                "neginf": neginf,
                "of": numel,
            }
        )
    return ", ".join(broken), json.dumps(facts) if facts else ""
