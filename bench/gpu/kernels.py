"""The device kernels: the CPU's figures, the same bits each time, how fast. On the CPU they run on
the stand-ins of the tests, where those are built.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import mpnanny
import torch
from mpnanny import _core
from mpnanny.base.device_kernels import KERNELS, DeviceKernels, Launches, slots_of
from setup import FAIL, PASS, SKIPPED, Row, Rows, Setup, some, verdict

BUILD = pathlib.Path(mpnanny.__file__).resolve().parents[2]
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.float8_e5m2)
BOUND = 1e-11  # of sums, relative (numerics/tensor_stats.h)
REPEATS = 5

Tensors = Sequence[torch.Tensor]


def _opened(setup: Setup) -> DeviceKernels | None:
    """None: on a CPU without the stand-ins."""
    if setup.device != "cpu":
        return DeviceKernels()
    driver, nvrtc = (BUILD / f"libmpn_stand_in_{each}.so" for each in ("driver", "nvrtc"))
    if not (driver.exists() and nvrtc.exists()):
        return None
    folder = pathlib.Path(setup.folder)
    (folder / "libnvrtc.so.12").symlink_to(nvrtc)
    return DeviceKernels([str(folder)], str(driver))


def kernels(setup: Setup) -> Rows:
    found = _opened(setup)
    if found is None:
        yield Row("the kernels", SKIPPED, "the stand-ins are not built (scripts/build --tests)")
        return
    if found.why:
        yield Row("the kernels", FAIL, found.why)
        return
    yield _compiled(setup, found)
    launches = Launches(found, torch.device(setup.device))
    torch.manual_seed(1)
    sizes = (0, 1, 33, 65_537, 200_000 if setup.small else 3_000_000)
    tensors = [_values(size, dtype) for dtype in DTYPES for size in sizes]
    on_device = [each.to(setup.device) for each in tensors]
    references = [each.double() * 1.001 for each in tensors]
    rows = [[each] for each in on_device]
    pairs = [[a, b.to(setup.device)] for a, b in zip(on_device, references, strict=True)]
    runs: dict[str, tuple[Sequence[Tensors], Callable[[int, Any], bool]]] = {
        "flags": (rows, lambda i, slot: _are_flags(slot, tensors[i])),
        "figures": (rows, lambda i, slot: _are_figures(slot, tensors[i])),
        "compare": (pairs, lambda i, slot: _is_compared(slot, tensors[i], references[i])),
    }
    for kernel, (asked, is_right) in runs.items():
        made = [launches.run(kernel, asked) for _ in range(REPEATS)]
        if made[0] is None or any(each is None for each in made):
            yield Row(kernel, FAIL, found.why or found.refused)
            continue
        same = all(torch.equal(made[0], each) for each in made if each is not None)
        slots = slots_of(kernel, made[0].cpu())
        wrong = [
            f"{tensors[i].dtype} of {tensors[i].numel()}"
            for i, slot in enumerate(slots)
            if not is_right(i, slot)
        ]
        told = f"differ from the CPU's: {some(wrong)}" if wrong else "the CPU's figures"
        bits = "the same bits each time" if same else "other bits the next time"
        yield Row(kernel, verdict(same and not wrong), f"{len(asked)} tensors: {told}, {bits}")
    yield from _speeds(setup, launches)


def _compiled(setup: Setup, found: DeviceKernels) -> Row:
    major, minor = (9, 0) if setup.device == "cpu" else torch.cuda.get_device_capability()
    told, began = [], time.monotonic()
    for each in KERNELS:
        start = time.monotonic()
        found.compile([each], 10 * major + minor)
        while not found.is_ready(each, 10 * major + minor) and not found.why:
            time.sleep(0.01)
        told.append(f"{each} {time.monotonic() - start:.2f} s")
    figures = f"{', '.join(told)}; together {time.monotonic() - began:.2f} s"
    return Row(
        "compiled, or read from the cache", FAIL if found.why else PASS, found.why or figures
    )


def _values(size: int, dtype: torch.dtype) -> torch.Tensor:
    values = torch.randn(size) * 3
    values[::7] = 0
    if size > 40:
        values[5], values[17], values[30] = torch.nan, torch.inf, -torch.inf
    return values.to(dtype)


def _near(got: float, wanted: float) -> bool:
    return abs(got - wanted) <= BOUND * abs(wanted)


def _are_flags(slot: Any, tensor: torch.Tensor) -> bool:
    values = tensor.double()
    finite = values[values.isfinite()]
    low, high = (finite.min().item(), finite.max().item()) if finite.numel() else (0.0, 0.0)
    counts = (values.isnan(), values == torch.inf, values == -torch.inf)
    wanted = (values.numel(), *(int(each.sum()) for each in counts), low, high)
    return slot[:6] == wanted and _near(slot[6], finite.square().sum().item())


def _are_figures(slot: Any, tensor: torch.Tensor) -> bool:
    numel, figures, exponents = slot
    flags = (numel, *figures[:3], figures[5], figures[6], figures[10])
    zeros = int((tensor.double() == 0).sum())
    return _are_flags(flags, tensor) and figures[3] == zeros and sum(exponents) == numel


def _is_compared(slot: Any, held: torch.Tensor, reference: torch.Tensor) -> bool:
    wanted = _core.compare(held, reference)
    if wanted is None:  # torch's DLPack knows no 8 bits
        return bool(slot[0] == held.numel())
    sums = all(_near(a, b) for a, b in zip(slot[10:13], wanted[10:13], strict=True))
    return bool(slot[:10] == wanted[:10] and slot[13:] == wanted[13:] and sums)


def _speeds(setup: Setup, launches: Launches) -> Rows:
    """Of 64 tensors in one launch: how long the host takes, and how fast memory is read."""
    size = 1000 if setup.small else 1_000_000
    held = [torch.randn(size, device=setup.device).bfloat16() for _ in range(64)]
    references = [each.double() for each in held]
    pairs = list(zip(held, references, strict=True))
    asked: dict[str, tuple[Sequence[Tensors], int]] = {
        "flags": ([[each] for each in held], 2),
        "figures": ([[each] for each in held], 2),
        "compare": (pairs, 10),
    }
    for kernel, (rows, width) in asked.items():
        launches.run(kernel, rows)
        if setup.device == "cpu":
            yield Row(f"{kernel} of 64 tensors", SKIPPED, "only a device has a speed")
            continue
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        began = time.perf_counter()
        for _ in range(20):
            launches.run(kernel, rows)
        host = (time.perf_counter() - began) / 20
        end.record()
        torch.cuda.synchronize()
        seconds = start.elapsed_time(end) / 20 / 1e3
        figures = (
            f"{seconds * 1e6:.0f} us, {64 * size * width / seconds / 1e9:.0f} GB/s;"
            f" host {host * 1e6:.0f} us, {host / 64 * 1e6:.1f} us a tensor"
        )
        yield Row(f"{kernel} of 64 tensors of a million BF16", verdict(host / 64 <= 3e-6), figures)
