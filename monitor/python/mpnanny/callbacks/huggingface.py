"""For transformers.Trainer: Trainer(…, callbacks=[NannyCallback(trace_interval=100)])."""

from __future__ import annotations

from typing import Any

from ..monitor.nanny import MixedPrecisionNanny
from ._watch import Watch

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError(
        f"mpnanny.callbacks.huggingface needs transformers (pip install transformers): {error}"
    ) from error


class NannyCallback(TrainerCallback):
    """Watches what a Trainer trains; a step is one of its optimizer steps (`global_step`).

    Options are those of MixedPrecisionNanny. The run ends with the training; after an exception
    that is caught outside, call `close()`.
    """

    def __init__(self, **options: Any) -> None:
        self._watch = Watch(options)

    @property
    def nanny(self) -> MixedPrecisionNanny | None:
        """Of the newest training."""
        return self._watch.nanny

    def close(self) -> None:
        self._watch.end()

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
    ) -> None:
        if model is not None:
            self._watch.begin(model, state.global_step, getattr(state, "max_steps", None))

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._watch.enter_step(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._watch.leave_step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._watch.end()
