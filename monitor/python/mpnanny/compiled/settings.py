"""How torch.compile is called for a comparison: random numbers are those of the eager program, one
thread compiles, nothing is taken from a cache or left in one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

from ..programs.problem import Problem

_folders: dict[int, str] = {}  # by process: what is compiled stays loaded as long as it lives


def _folder() -> str:
    process = os.getpid()
    if process not in _folders:
        folder = _folders[process] = tempfile.mkdtemp(prefix="mpnanny-compile-")

        def remove() -> None:
            if os.getpid() == process:  # not in what was forked from it
                shutil.rmtree(folder, ignore_errors=True)

        atexit.register(remove)
    return _folders[process]


def check_compiler(device: str) -> None:
    """Raises Problem where torch.compile lacks what it compiles with."""
    from torch._inductor import config

    if device != "cpu":
        try:
            import triton  # noqa: F401
        except ImportError as error:
            raise Problem(
                "torch.compile needs triton on a GPU, and it is not installed.",
                "pip install triton",
                "Unavailable",
            ) from error
        return
    asked: Any = config.cpp.cxx
    names = [each for each in (asked if isinstance(asked, (tuple, list)) else [asked]) if each]
    for name in names or ["g++"]:
        try:
            subprocess.run([name, "--version"], capture_output=True, timeout=20, check=True)
            return
        except (OSError, subprocess.SubprocessError):
            continue
    raise Problem(
        f"torch.compile needs a C++ compiler on a CPU: {' or '.join(names or ['g++'])} is not in "
        "PATH.",
        "apt install g++ (or set CXX to a compiler), or `conda install gxx`.",
        "Unavailable",
    )


def changed_settings() -> dict[str, Any]:
    """What the program has set in torch._inductor.config, by name, with what torch has there."""
    from torch._inductor import config

    entries: dict[str, Any] = getattr(config, "_config", {})
    made: dict[str, Any] = {}
    for name, now in config.get_config_copy().items():
        entry = entries.get(name)
        usual = getattr(entry, "env_value_default", None)
        if entry is None or not isinstance(usual, (bool, int, float, str, type(None))):
            usual = getattr(entry, "default", now)
        for other in ("env_value_force", "env_value_default"):
            value = getattr(entry, other, None)
            if isinstance(value, (bool, int, float, str)):
                usual = value
                break
        if now is not usual and now != usual:
            made[name] = usual
    return made


@contextlib.contextmanager
def compiling(**changes: Any) -> Iterator[None]:
    """`changes`: of torch._inductor.config, by name."""
    import torch._dynamo
    import torch._functorch.config
    import torch._inductor.config

    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = _folder()
    torch._dynamo.reset()
    known: dict[str, Any] = {
        "fallback_random": True,
        "compile_threads": 1,
        "fx_graph_cache": False,
        "fx_graph_remote_cache": False,
        **changes,
    }
    dynamo: dict[str, Any] = {"suppress_errors": False}
    autograd: dict[str, Any] = {"enable_autograd_cache": False}
    try:
        with (
            torch._inductor.config.patch(known),
            torch._functorch.config.patch(autograd),
            torch._dynamo.config.patch(dynamo),
        ):
            yield
    finally:
        torch._dynamo.reset()
        if before is None:
            os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = before
