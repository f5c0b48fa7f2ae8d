"""What the callbacks share: a run from the framework's begin to its end."""

from __future__ import annotations

from typing import Any

from torch import nn

from ..monitor.nanny import MixedPrecisionNanny, Step


class Watch:
    """One training after the other, each a run. Options are those of MixedPrecisionNanny; a wrong
    one raises where the callback is made.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        MixedPrecisionNanny.check_options(options)
        self._options = options
        self.nanny: MixedPrecisionNanny | None = None
        self._block: Step | None = None

    def begin(self, model: nn.Module, step: int, last: Any = None) -> None:
        """Watches `model`, whose next step has the number `step` (not 0 where it is resumed) and
        whose training ends with step `last`, where that is known.
        """
        self.end()
        self.nanny = MixedPrecisionNanny(model, **self._options)
        self.nanny.count_from(step)
        if isinstance(last, (int, float)) and step < last < float("inf"):
            self.nanny.expect_steps(int(last) - step)

    def enter_step(self, step: int) -> None:
        if self.nanny is not None:
            self._block = self.nanny.step(step)
            self._block.__enter__()

    def leave_step(self) -> None:
        if self._block is not None:
            self._block.__exit__(None, None, None)

    def end(self, reason: str = "closed") -> None:
        self._block = None
        if self.nanny is not None:
            self.nanny.close(reason)
