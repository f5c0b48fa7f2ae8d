"""PrecisionGuard: the one part of this package that changes a training."""

from .precision_guard import Change, PrecisionGuard

__all__ = ["Change", "PrecisionGuard"]
