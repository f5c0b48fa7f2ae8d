"""mpnanny: watches a PyTorch training and remembers what happened before it broke.

The names below are the interface; the folders are the parts behind it, put together in _session.py.
"""

from ._decorator import WatchedFunction, watch_training
from ._loss_scale import LossScaleCheck, check_loss_scale
from ._nanny import MixedPrecisionNanny, Step, watch_model
from ._plot import plot
from ._tensor import analyze_tensor
from .diff import auto_diff
from .guard import PrecisionGuard
from .precision import choose_precision
from .report.alerts import Alert
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
