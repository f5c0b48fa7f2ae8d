"""Runs a program with its tensors taken for a device's, whose figures come to the host later:
`as_device.py PROGRAM ARGUMENTS…`, or as_device() in this process.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from typing import Any

import torch  # noqa: F401  before the monitor's modules: what watches the program waits for it


def modules() -> list[Any]:
    """Those that ask where a tensor lies."""
    import mpnanny.fp64.comparison  # noqa: F401, PLC0415
    import mpnanny.shadow.session  # noqa: F401, PLC0415

    named = [each for name, each in sys.modules.items() if name.startswith("mpnanny.")]
    return [each for each in named if hasattr(each, "on_host")]


def as_device(replace: Callable[[Any, str, Any], None] = setattr) -> None:
    for module in modules():
        replace(module, "on_host", lambda _: False)


if __name__ == "__main__":
    as_device()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
