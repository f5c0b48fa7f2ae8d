"""Figures of what compiled graphs run on a device.

All memory is made when watching begins and stays: an operator may be part of a CUDA graph, which
runs again later on the same addresses without Python, and memory that it kept would be missing in
the graph's own. A call is measured when it runs, as its graph's buffers are written again without a
word. What a CUDA graph holds are launches of our kernel that leave at once while the gate, a number
on the device, is 0; it is opened and shut between two steps.

Nothing here waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from .. import _core
from ..base.device_kernels import DeviceKernels, is_dense
from ..base.later import Parcel
from ..base.notes import Notes
from ..operators.modes import own_work
from ..steps.figures import parts, whole

MOST = 4096  # tensors of a step, and as many of CUDA graphs
SCRATCH = 8 << 20  # bytes, of the largest launch

_WORDS = _core.DEVICE_SLOT_BYTES["figures"] // 8
_FIGURES = 15  # of one part of a tensor, as _core.whole() takes them


@dataclass
class Sent:
    """A step's figures: its own, and those of CUDA graphs. Empty until the step has ended."""

    parcels: list[Parcel] = field(default_factory=list)
    # By address and figures: what one module gives and the next one takes is one tensor.
    readings: dict[tuple[Any, ...], _core.Reading] = field(default_factory=dict)


@dataclass
class Place:
    """Where a tensor's figures are. `slots`: several, if torch's operators took it in parts."""

    captured: bool
    slots: list[int]
    address: int
    dtype: str
    numel: int
    by_kernel: bool

    def reading(self, sent: Sent) -> _core.Reading | None:
        """What the core takes for the tensor, once it has arrived; None where it did not run."""
        if not sent.parcels or not sent.parcels[self.captured].arrived():
            return None
        figures: list[float] = []
        for slot in self.slots:
            words = sent.parcels[self.captured].value[slot]
            if not self.by_kernel:
                figures += words[:_FIGURES].view(torch.float64).tolist()
                continue
            numel, found, _ = _core.device_slots("figures", words.numpy().tobytes())[0]
            if numel != self.numel:
                return None
            figures += found
        key = (self.address, self.dtype, self.numel, *figures)
        if key not in sent.readings:
            sent.readings[key] = _core.whole(self.dtype, self.numel, figures)
        return sent.readings[key]


class DeviceTable:
    """Of one run on one device, whose current stream it uses."""

    def __init__(self, device: torch.device, kernels: DeviceKernels, notes: Notes) -> None:
        self.device = device
        self.sent = Sent()  # what the step that goes on will have sent
        self._kernels = kernels
        self._notes = notes
        shape = (MOST, _WORDS)
        self._memory = [torch.zeros(shape, dtype=torch.int64, device=device) for _ in range(2)]
        self._used = [0, 0]
        self._scratch = torch.zeros(SCRATCH, dtype=torch.uint8, device=device)
        self._gate = torch.zeros(1, dtype=torch.int64, device=device)
        self._one = torch.zeros(1, device=device)
        self._is_open = False
        self._by_kernel: bool | None = None  # None: not tried yet

    def is_capturing(self) -> bool:
        """Whether what is launched now becomes part of a CUDA graph."""
        return self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()

    def has_captured(self) -> bool:
        return self._used[True] > 0

    def prepare(self) -> None:
        """Compiles and loads the kernel, which cannot be done while a graph is captured. A graph
        runs before that.
        """
        if self._by_kernel is None:
            self._by_kernel = self._launch([self._one], False)
            self._used[False] = 0
            if not self._by_kernel:
                self._notes.note(
                    "compiled modules in CUDA graphs are not watched: "
                    + (self._kernels.why or self._kernels.refused)
                )

    def read(self, tensors: list[torch.Tensor]) -> list[Place]:
        """Measures them now."""
        captured = self.is_capturing()
        first, used = self._used[captured], self._used
        tensors = [each for each in tensors if each.numel()]
        if first + len(tensors) > MOST:
            self._notes.note(f"more than {MOST} tensors of compiled modules: not all are watched")
            return []
        with torch.no_grad(), own_work():
            if self._by_kernel and self._launch(tensors, captured):
                return [
                    Place(captured, [first + at], *_described(each), True)
                    for at, each in enumerate(tensors)
                ]
            used[captured] = first
            if captured:
                return []
            return [self._by_operators(each) for each in tensors]

    def _launch(self, tensors: list[torch.Tensor], captured: bool) -> bool:
        kept: list[torch.Tensor] = []  # until the launch: later memory is the stream's again
        rows = []
        for each in tensors:
            plain = each if is_dense(each) else each.contiguous()
            kept.append(plain)
            address, dtype, numel = _described(plain)
            options = _core.DEVICE_GATED if captured else 0
            row = (numel, self._used[captured], options, address, _core.DEVICE_DTYPES.get(dtype, 0))
            rows.append((*row, self._gate.data_ptr(), 0) if captured else row)
            self._used[captured] += 1
        memory, stream = self._memory[captured], 0
        if self.device.type == "cuda":
            stream = torch.cuda.current_stream(self.device).cuda_stream
        return self._kernels.launch(
            "figures",
            rows,
            memory.data_ptr(),
            MOST,
            self._scratch.data_ptr(),
            self._scratch.numel(),
            stream,
        )

    def _by_operators(self, tensor: torch.Tensor) -> Place:
        place = Place(False, [], *_described(tensor), False)
        for part in parts(tensor):
            if self._used[False] == MOST:
                break
            counts, ends, moments = (each.to(torch.float64) for each in whole(part))
            figures = torch.cat((counts[:5], ends, moments, counts[5:]))
            self._memory[False][self._used[False], :_FIGURES].copy_(figures.view(torch.int64))
            place.slots.append(self._used[False])
            self._used[False] += 1
        return place

    # --- between two steps ---

    def open(self, wanted: bool) -> None:
        """Whether CUDA graphs measure what they run from here on."""
        if wanted != self._is_open:
            self._is_open = wanted
            self._gate.fill_(int(wanted))

    def send(self) -> None:
        """The step has ended: what it has measured goes off, and is measured anew."""
        sent, self.sent = self.sent, Sent()
        with torch.no_grad(), own_work():
            sent.parcels = [
                Parcel(memory[:used].clone())
                for memory, used in zip(self._memory, self._used, strict=True)
            ]
            self._memory[True][: self._used[True], 0].zero_()  # the number of elements
        self._used[False] = 0


def _described(tensor: torch.Tensor) -> tuple[int, str, int]:
    return tensor.data_ptr(), str(tensor.dtype).removeprefix("torch."), tensor.numel()
