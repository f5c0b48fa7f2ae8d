"""What is judged: one result of an operator."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .call import Call
from .comparison import Comparison
from .findings import Finding


@dataclass(slots=True)
class Result:
    """As held and as its reference."""

    call: Call
    index: int  # among the results of the operator
    held: torch.Tensor
    reference: torch.Tensor
    found: Comparison
    origin: Finding | None  # where the error of its worst input comes from
