"""mpnanny: watches a PyTorch training and remembers what happened before it broke.

The names below are the interface; the folders are the parts behind it, put together in _session.py.
They are imported when they are asked for: torch takes seconds, and `python -m mpnanny` needs none.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._decorator import WatchedFunction, watch_training
    from ._loss_scale import LossScaleCheck, check_loss_scale
    from ._nanny import MixedPrecisionNanny, Step, watch_model
    from ._plot import plot
    from ._tensor import analyze_tensor
    from .base.alerts import Alert
    from .diff import auto_diff
    from .guard import PrecisionGuard
    from .precision import choose_precision
    from .report.course import Summary

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
    "plot",
    "watch_model",
    "watch_training",
]

_MODULES = {
    "_decorator": ("WatchedFunction", "watch_training"),
    "_loss_scale": ("LossScaleCheck", "check_loss_scale"),
    "_nanny": ("MixedPrecisionNanny", "Step", "watch_model"),
    "_plot": ("plot",),
    "_tensor": ("analyze_tensor",),
    "diff": ("auto_diff",),
    "guard": ("PrecisionGuard",),
    "precision": ("choose_precision",),
    "report.alerts": ("Alert",),
    "report.course": ("Summary",),
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
