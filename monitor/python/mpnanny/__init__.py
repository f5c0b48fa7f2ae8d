"""mpnanny: watches a PyTorch training and remembers what happened before it broke."""

from ._nanny import Alert, MixedPrecisionNanny, Step, watch_model

__all__ = ["Alert", "MixedPrecisionNanny", "Step", "watch_model"]
