"""For Lightning: Trainer(callbacks=[NannyCallback(trace_interval=100)])."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from ..monitor.nanny import MixedPrecisionNanny
from ._watch import Watch

try:
    if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
        from pytorch_lightning import Callback
    else:
        try:
            from lightning.pytorch import Callback
        except ImportError:
            from pytorch_lightning import Callback
except ImportError as error:
    raise ImportError(
        "mpnanny.callbacks.lightning needs lightning or pytorch_lightning (pip install lightning):"
        f" {error}"
    ) from error


class NannyCallback(Callback):
    """Watches what a Trainer fits; a step is one step of the main optimizer, and counting starts at
    the trainer's `global_step`.

    Options are those of MixedPrecisionNanny.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._watch = Watch(options)

    @property
    def nanny(self) -> MixedPrecisionNanny | None:
        """Of the newest fit."""
        return self._watch.nanny

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        last = None
        with contextlib.suppress(Exception):  # the trainer may not know yet
            last = trainer.estimated_stepping_batches
        self._watch.begin(pl_module, trainer.global_step, last)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._watch.end("signal" if isinstance(exception, KeyboardInterrupt) else "exception")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._watch.end()
