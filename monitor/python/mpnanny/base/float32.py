"""FP32 that is computed in FP32: no TF32, which a program allows or cuDNN takes by default."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


def _settings() -> list[tuple[Any, str, Any]]:
    """Objects, the attribute of each that allows TF32, and its value for none. Only one of torch's
    two ways may be used, by program and monitor: the newer one also gives the older one's values
    back.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    if hasattr(matmul, "fp32_precision"):  # since torch 2.9
        return [(matmul, "fp32_precision", "ieee"), (cudnn.conv, "fp32_precision", "ieee")]
    return [(matmul, "allow_tf32", False), (cudnn, "allow_tf32", False)]


@contextlib.contextmanager
def full_float32() -> Iterator[None]:
    """Products and convolutions on CUDA."""
    settings = _settings()
    before = [getattr(where, name) for where, name, _ in settings]
    try:
        for where, name, value in settings:
            setattr(where, name, value)
        yield
    finally:
        for (where, name, _), value in zip(settings, before, strict=True):
            setattr(where, name, value)
