"""Memory for what the device kernels leave of a step's tensors: on the device, and on the host
where it comes to. It is used again and again, so that nothing is allocated in a step.
"""

from __future__ import annotations

import torch

from .. import _core

# Rows of one piece of memory: what a step of most models needs.
_ROWS = {"flags": 1024, "figures": 64}


class Slots:
    """Of one kernel, in one step. `used`: rows that are taken."""

    def __init__(self, kernel: str, rows: int, device: torch.device) -> None:
        words = _core.DEVICE_SLOT_BYTES[kernel] // 8
        self.kernel = kernel
        self.rows = rows
        self.used = 0
        # Nothing is written into it before the kernel does, on whatever stream.
        self.device = torch.empty((rows, words), dtype=torch.int64, device=device)
        pinned = device.type == "cuda"  # so that the copy waits for nothing
        self.host = torch.empty((rows, words), dtype=torch.int64, pin_memory=pinned)


class SlotRing:
    """Of one device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._free: dict[str, list[Slots]] = {}

    def take(self, kernel: str, rows: int) -> Slots:
        """At least so many rows."""
        free = self._free.setdefault(kernel, [])
        for at, slots in enumerate(free):
            if slots.rows >= rows:
                del free[at]
                return slots
        return Slots(kernel, max(rows, _ROWS[kernel]), self._device)

    def give(self, slots: Slots) -> None:
        """Back, once what was in it has been read."""
        slots.used = 0
        self._free[slots.kernel].append(slots)
