"""The device kernels (numerics/device) for torch's tensors: found once in a process, compiled
beside the training, launched on torch's stream.

Nothing here waits for the device. Where the kernels cannot be used, `why` says so in a sentence and
the caller does what it did without them.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from .. import _core

KERNELS = ("flags", "figures", "compare", "change")
_DTYPES = {getattr(torch, name): number for name, number in _core.DEVICE_DTYPES.items()}
_SPARE = 2  # scratch memory grows to so many times what is wanted


def _cache() -> str:
    """A folder of this user's that keeps compiled kernels, "" where there is none."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(home) / "mpnanny"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return ""
    return str(folder / "kernels")


class DeviceKernels:
    """Of one process. `why`: why they cannot be used, "" where they can."""

    def __init__(self, folders: Sequence[str] = (), driver: str = "libcuda.so.1") -> None:
        """`folders`: where NVRTC lies beside those of torch's wheels. `driver`: for tests."""
        self.why = ""
        self.refused = ""  # what was wrong with the rows of the last launch that failed for them
        self._core: _core.DeviceKernels | None = None
        self._ready: set[tuple[str, int]] = set()
        self._asked: set[tuple[str, int]] = set()
        wheels = str(Path(torch.__file__).parents[1])
        try:
            self._core = _core.DeviceKernels([*folders, wheels], _cache(), driver)
        except (RuntimeError, ValueError) as error:
            self.why = str(error)

    def compile(self, kernels: Iterable[str], architecture: int) -> None:
        """Compiles beside the training, in a thread that ends with the process. `architecture`: 90
        is sm_90.
        """
        missing = [each for each in kernels if (each, architecture) not in self._asked]
        self._asked.update((each, architecture) for each in missing)
        if missing and self._core is not None:
            arguments = (missing, architecture)
            threading.Thread(target=self._compile, args=arguments, daemon=True).start()

    def _compile(self, kernels: Sequence[str], architecture: int) -> None:
        assert self._core is not None
        for each in kernels:
            try:
                self._core.compile(each, architecture)
            except (RuntimeError, ValueError) as error:
                self.why = self.why or str(error)
                return
            self._ready.add((each, architecture))

    def is_ready(self, kernel: str, architecture: int) -> bool:
        """Whether a launch has nothing to compile."""
        return not self.why and (kernel, architecture) in self._ready

    def launch(self, *arguments: Any) -> bool:
        """As _core.DeviceKernels.launch(). False: it failed. What CUDA has refused once is not
        tried again; a row that cannot be read (`refused`) is its caller's affair.
        """
        if self._core is None or self.why:
            return False
        try:
            self._core.launch(*arguments)
        except ValueError as error:
            self.refused = str(error)
            return False
        except RuntimeError as error:
            self.why = str(error)
            return False
        return True


@functools.cache
def kernels_of_process() -> DeviceKernels:
    return DeviceKernels()


class Launches:
    """On one device, from one thread at a time."""

    def __init__(self, kernels: DeviceKernels, device: torch.device) -> None:
        self._kernels = kernels
        self._device = device
        self._scratch: dict[int, torch.Tensor] = {}  # by stream: launches must not share it

    def run(
        self,
        kernel: str,
        rows: Sequence[Sequence[torch.Tensor]],
        restarts: Sequence[bool] = (),
    ) -> torch.Tensor | None:
        """The slots of `rows`, one a row, as int64 words of shape (rows, words) on the device;
        slots_of() reads them when they have come to the host. None: it failed.

        A row: one tensor for `flags` and `figures`, held and reference for `compare`, held before
        and after and reference before and after for `change`. `restarts`: rows whose reference is
        put right in place; it has to be contiguous.
        """
        words = _core.DEVICE_SLOT_BYTES[kernel] // 8
        slots = torch.empty((len(rows), words), dtype=torch.int64, device=self._device)
        kept: list[torch.Tensor] = []  # until the launch: later memory is the stream's again
        cells = [
            _row(slot, row, bool(restarts and restarts[slot]), kept)
            for slot, row in enumerate(rows)
        ]
        stream = self._stream()
        scratch = self._scratch_of(stream, _core.device_scratch_bytes(cells))
        launched = self._kernels.launch(
            kernel,
            cells,
            slots.data_ptr(),
            len(rows),
            scratch.data_ptr(),
            scratch.numel(),
            stream,
        )
        return slots if launched else None

    def _stream(self) -> int:
        if self._device.type != "cuda":
            return 0
        return torch.cuda.current_stream(self._device).cuda_stream

    def _scratch_of(self, stream: int, size: int) -> torch.Tensor:
        found = self._scratch.get(stream)
        if found is None or found.numel() < size:
            # The old one goes back to torch's allocator, which hands it out on this stream again.
            found = torch.zeros(_SPARE * size, dtype=torch.uint8, device=self._device)
            self._scratch[stream] = found
        return found


def _row(
    slot: int, tensors: Sequence[torch.Tensor], restarts: bool, kept: list[torch.Tensor]
) -> tuple[int, ...]:
    cells = [tensors[0].numel(), slot, _core.DEVICE_RESTARTS if restarts else 0]
    alike = len(tensors) == 1 or len({(each.shape, each.stride()) for each in tensors}) == 1
    for each in tensors:
        # Tensors of one dense layout pair up as their memory lies.
        plain = each if alike and is_dense(each) else each.contiguous()
        kept.append(plain)
        cells += (plain.data_ptr(), _DTYPES.get(plain.dtype, 0))
    return tuple(cells)


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill their memory, each once."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def slots_of(kernel: str, words: torch.Tensor) -> list[tuple[Any, ...]]:
    """The fields of each slot (_core.device_slots) of what run() gave, now on the host."""
    return _core.device_slots(kernel, words.contiguous().numpy().tobytes())
