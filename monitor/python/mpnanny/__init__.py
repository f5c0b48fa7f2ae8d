"""mpnanny: watches a PyTorch training and remembers what happened before it broke.

The names below are the interface; the folders are the rooms behind it (docs/architecture.md), put
together in monitor/session.py. They are imported when they are asked for: torch takes seconds, and
`python -m mpnanny` needs none.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._loss_scale import LossScaleCheck, check_loss_scale
    from ._mismatch import log_mismatch
    from ._plot import plot
    from ._tensor import analyze_tensor
    from .base.alerts import Alert
    from .diff import auto_diff
    from .guard import PrecisionGuard
    from .monitor.decorator import WatchedFunction, watch_training
    from .monitor.nanny import MixedPrecisionNanny, Step, watch_model
    from .precision import choose_precision
    from .report.course import Summary
    from .shadow.prelude import follow_from_here

__all__ = [
    "Alert",
    "LossScaleCheck",
    "MixedPrecisionNanny",
    "PrecisionGuard",
    "Step",
    "Summary",
    "WatchedFunction",
    "analyze_tensor",
    "auto_diff",
    "check_loss_scale",
    "choose_precision",
    "follow_from_here",
    "log_mismatch",
    "plot",
    "watch_model",
    "watch_training",
]

_MODULES = {
    "_loss_scale": ("LossScaleCheck", "check_loss_scale"),
    "_mismatch": ("log_mismatch",),
    "_plot": ("plot",),
    "_tensor": ("analyze_tensor",),
    "base.alerts": ("Alert",),
    "diff": ("auto_diff",),
    "guard": ("PrecisionGuard",),
    "monitor.decorator": ("WatchedFunction", "watch_training"),
    "monitor.nanny": ("MixedPrecisionNanny", "Step", "watch_model"),
    "precision": ("choose_precision",),
    "report.course": ("Summary",),
    "shadow.prelude": ("follow_from_here",),
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return importlib.import_module(f"{__name__}._core").version
    for module, names in _MODULES.items():
        if name in names:
            value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
