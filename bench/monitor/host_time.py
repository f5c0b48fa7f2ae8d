"""What watching a device costs the host: time a module and step, beside hooks that do nothing.

Usage: PYTHONPATH=build/release/python .venv/bin/python bench/monitor/host_time.py [--rounds 3]

Needs no device: tensors of the CPU are taken for a device's, and launches go to the tests' stand-in
for CUDA's driver, which counts them and runs nothing (scripts/build --tests). A model of 401
modules trains in turns unwatched, with an empty hook on each (what torch itself takes for it),
and watched: by our kernels, by torch's operators, and as a CPU's. Each way of watching is a process
of its own, in turns. Prints one JSON line a way and kind of step: microseconds of the training
thread's processor time a module beyond the unwatched step, median over the rounds of the median
over the steps; of the empty hooks in the same processes; launches a step.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

WAYS = ("kernels", "operators", "cpu")
INTERVALS = {"between samples": 10**9, "sampled": 1}
BLOCKS, WARM_UP, STEPS, MOST_OPERATOR_STEPS = 100, 120, 60, 12


def child(way: str, interval: int) -> dict[str, float]:
    """One process: seconds a step of each arm."""
    import torch  # noqa: PLC0415
    from mpnanny import MixedPrecisionNanny  # noqa: PLC0415
    from mpnanny.base import device_kernels, later  # noqa: PLC0415
    from torch import nn  # noqa: PLC0415

    torch.set_num_threads(1)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.rest, self.bend = nn.Linear(4, 4), nn.Identity(), nn.GELU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.bend(self.rest(self.linear(x)))

    class Nothing:
        def __call__(self, *_: Any) -> None:
            pass

    def model() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(*(Block() for _ in range(BLOCKS)))

    driver = None
    if way != "cpu":
        later.HOST.clear()
        later.DEVICES.add("cpu")
    with tempfile.TemporaryDirectory() as folder:
        if way == "kernels":
            driver, kernels = _stand_in(folder)
            device_kernels.kernels_of_process = lambda: kernels
        arms = {"unwatched": model(), "empty hooks": model(), "watched": model()}
        for each in arms["empty hooks"].modules():
            each.register_forward_hook(Nothing(), with_kwargs=True)
        optimizers = {name: torch.optim.SGD(each.parameters(), 0.01) for name, each in arms.items()}
        x = torch.randn(2, 4)

        def step(name: str) -> float:
            start = time.thread_time()
            arms[name](x).square().mean().backward()
            optimizers[name].step()
            optimizers[name].zero_grad()
            return time.thread_time() - start

        seconds: dict[str, list[float]] = {name: [] for name in arms}
        slow = interval == 1 and way == "operators"
        with MixedPrecisionNanny(
            arms["watched"],
            db=f"{folder}/metrics.db",
            quiet=True,
            shadow="off",
            trace_interval=interval,
        ):
            # What looks at the first passes of a training is over by then.
            for _ in range(2 if slow else WARM_UP):
                step("unwatched"), step("watched")
            launched = driver.stand_in_made(b"cuLaunchKernel") if driver else 0
            steps = MOST_OPERATOR_STEPS if slow else STEPS
            for _ in range(steps):
                for name, times in seconds.items():
                    times.append(step(name))
            launched = (driver.stand_in_made(b"cuLaunchKernel") if driver else 0) - launched
    middle = {name: statistics.median(times) for name, times in seconds.items()}
    modules = 1 + 4 * BLOCKS
    return {
        "us_a_module": (middle["watched"] - middle["unwatched"]) / modules * 1e6,
        "us_of_empty_hooks": (middle["empty hooks"] - middle["unwatched"]) / modules * 1e6,
        "us_of_the_step_itself": middle["unwatched"] / modules * 1e6,
        "launches": launched / steps,
    }


def _stand_in(folder: str) -> tuple[Any, Any]:
    """The stand-in for CUDA's driver, idle, and the kernels on it."""
    import torch  # noqa: PLC0415
    from mpnanny.base import device_kernels  # noqa: PLC0415

    build = pathlib.Path(device_kernels.__file__).parents[3]
    compiler = build / "libmpn_stand_in_nvrtc.so"
    (pathlib.Path(folder) / "libnvrtc.so.12").symlink_to(compiler)
    driver = ctypes.CDLL(str(build / "libmpn_stand_in_driver.so"))
    driver.stand_in_idle(1)
    kernels = device_kernels.DeviceKernels([folder], str(build / "libmpn_stand_in_driver.so"))
    launches = kernels.on(torch.device("cpu"))
    while not launches.are_ready():
        if launches.why:
            raise RuntimeError(launches.why)
        time.sleep(0.001)
    return driver, kernels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments.child[0], int(arguments.child[1]))))
        return
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(arguments.rounds):
        for kind, interval in INTERVALS.items():
            for way in WAYS:
                command = [sys.executable, __file__, "--child", way, str(interval)]
                answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found.setdefault((way, kind), []).append(json.loads(answer))
    for (way, kind), rounds in found.items():
        middle = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
        figures = {name: round(value, 2) for name, value in middle.items()}
        print(json.dumps({"way": way, "steps": kind, **figures}))


if __name__ == "__main__":
    main()
