"""Runs a program with its tensors taken for a device's, whose figures come to the host later:
`as_device.py PROGRAM ARGUMENTS…`, or as_device() in this process. A program's are compared by the
device kernels on the stand-in for CUDA's driver, where that is built (scripts/build --tests).
"""

from __future__ import annotations

import os
import pathlib
import runpy
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch  # before the monitor's modules: what watches the program waits for it


def modules() -> list[Any]:
    """Those that ask where a tensor lies."""
    import mpnanny.fp64.comparison  # noqa: F401, PLC0415
    import mpnanny.shadow.session  # noqa: F401, PLC0415

    named = [each for name, each in sys.modules.items() if name.startswith("mpnanny.")]
    return [each for each in named if hasattr(each, "on_host")]


def as_device(replace: Callable[[Any, str, Any], None] = setattr) -> None:
    for module in modules():
        replace(module, "on_host", lambda _: False)


def use_stand_in(folder: str) -> None:
    """The device kernels of this process; those of torch's operators where it is not built.
    `folder`: of wheels that have the stand-in for NVRTC.
    """
    import mpnanny.base.device_kernels as found  # noqa: PLC0415

    build = pathlib.Path(found.__file__).parents[3]
    driver, compiler = (build / f"libmpn_stand_in_{each}.so" for each in ("driver", "nvrtc"))
    if not (driver.exists() and compiler.exists()):
        return
    (pathlib.Path(folder) / "libnvrtc.so.12").symlink_to(compiler)
    os.environ["XDG_CACHE_HOME"] = folder
    kernels = found.DeviceKernels([folder], str(driver))
    found.kernels_of_process = lambda: kernels
    launches = kernels.on(torch.device("cpu"))
    while not launches.are_ready() and not launches.why:
        time.sleep(0.001)


if __name__ == "__main__":
    as_device()
    with tempfile.TemporaryDirectory() as wheels:
        use_stand_in(wheels)
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
