"""What the run's row says about machine and software. No environment variables, and arguments only
on request: they hold secrets.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch


def script_path() -> str:
    """The file that is being run, or "" (interactive, embedded)."""
    main = sys.modules.get("__main__")
    return (
        os.path.abspath(getattr(main, "__file__", None) or "") if hasattr(main, "__file__") else ""
    )


def run_name() -> str:
    """ "resnet/train": of the script and its folder, as many are called train. Lists show when each
    run began; the name stays as it is when a training goes on, which is found by it.
    """
    script = script_path()
    place = os.path.splitext(script)[0] if script else os.path.abspath("interactive")
    return "/".join(
        filter(None, (os.path.basename(os.path.dirname(place)), os.path.basename(place)))
    )


def _revision(script: str) -> str | None:
    if not script:
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", os.path.dirname(script), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=2,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def _ask(ask: Callable[[], Any]) -> Any:
    """What `ask` says; None where this torch cannot say it. Some versions raise when a flag was set
    by its newer name.
    """
    try:
        return ask()
    except Exception:
        return None


def _ask_cpu(name: str) -> Any:
    return getattr(torch.cpu, name)()


def _cpu() -> dict[str, Any]:
    """`fp16` and `bf16`: torch computes in them; `native`: the processor does so itself."""
    asks = {
        "bf16": "_is_avx512_bf16_supported",
        "amx": "_is_amx_tile_supported",
        "amx_fp16": "_is_amx_fp16_supported",
    }
    native = [name for name, ask in asks.items() if _ask(functools.partial(_ask_cpu, ask))]
    return {
        "type": "cpu",
        "capability": _ask(torch.backends.cpu.get_cpu_capability),
        "threads": torch.get_num_threads(),
        "fp16": True,
        "bf16": True,
        "native": native,
    }


def _cuda(index: int) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(index)
    device = {
        "type": "cuda",
        "name": properties.name,
        "memory": properties.total_memory,
        "fp16": True,
    }
    if torch.version.hip is not None:
        architecture = str(getattr(properties, "gcnArchName", "")).split(":")[0]
        fp8 = architecture.startswith(("gfx94", "gfx95", "gfx12"))
        return {**device, "architecture": architecture, "bf16": True, "tf32": False, "fp8": fp8}
    capability = (properties.major, properties.minor)
    return {
        **device,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "fp16": capability >= (5, 3),
        "bf16": capability >= (8, 0),
        "tf32": capability >= (8, 0),
        "fp8": capability >= (8, 9),
    }


def _devices() -> list[dict[str, Any]]:
    devices = [_cpu()]
    count = _ask(torch.cuda.device_count) or 0
    if count and not torch.cuda.is_initialized():
        devices.append({"type": "cuda", "count": count, "initialised": False})
    else:
        devices += filter(None, (_ask(functools.partial(_cuda, index)) for index in range(count)))
    if _ask(lambda: torch.backends.mps.is_available()):
        devices.append({"type": "mps", "fp16": True})
    return devices


def describe(minimal: bool = False, arguments: bool = False) -> str:
    """JSON for run.environment; `minimal` leaves out host and script, `arguments` adds those of the
    script. Does not initialise CUDA.
    """
    script = script_path()
    matmul = torch.backends.cuda.matmul
    facts = {
        "host": platform.node(),
        "system": platform.platform(),
        "script": script or None,
        "git_revision": _revision(script),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": _ask(torch.backends.cudnn.version) if torch.cuda.is_initialized() else None,
        "devices": _devices(),
        "tf32_matmul": _ask(lambda: matmul.allow_tf32),
        "tf32_cudnn": _ask(lambda: torch.backends.cudnn.allow_tf32),
        "float32_matmul_precision": _ask(torch.get_float32_matmul_precision),
        "fp16_reduced_precision_reduction": _ask(
            lambda: matmul.allow_fp16_reduced_precision_reduction
        ),
        "bf16_reduced_precision_reduction": _ask(
            lambda: matmul.allow_bf16_reduced_precision_reduction
        ),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }
    if minimal:
        facts = {key: value for key, value in facts.items() if key not in ("host", "script")}
    if arguments:
        facts["arguments"] = sys.argv[1:]
    return json.dumps(facts)


def rank_and_size() -> tuple[int, int]:
    """Of a distributed run, from torch or the launcher's variables; (0, 1) outside of one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    try:
        return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        return 0, 1
