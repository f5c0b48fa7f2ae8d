"""What torch.compile has made, run eagerly for the length of a shadow step: compiled code hides its
operators.

Eager and compiled code round differently (a compiler fuses operators and keeps what lies between
them wider) and may draw other random numbers, so this is only done where the user asks for it.
"""

from __future__ import annotations

from typing import Any

import torch

_set_stance: Any = getattr(torch.compiler, "set_stance", None)  # since torch 2.6


class Eager:
    """Torch's stance is one of the whole process."""

    def __init__(self) -> None:
        self._stance: Any = None  # torch's context manager, while it is on

    def refusal(self) -> str:
        """Why it cannot be done, in words; "" if it can."""
        return "" if _set_stance is not None else "this torch cannot run compiled code eagerly"

    def begin(self) -> None:
        if self._stance is None:
            self._stance = _set_stance("force_eager")  # from here on

    def end(self) -> None:
        """As it was before. Again is harmless."""
        stance, self._stance = self._stance, None
        if stance is not None:
            stance.__exit__(None, None, None)
