"""Figures that are on their way from a device.

Nothing here waits for the device, and nothing asks it for a value: what is to be known is gathered
in a Mail, sent with one copy when the step ends, and opened when an event says that it has arrived.
"""

from __future__ import annotations

from typing import Any

import torch

HOST = {"cpu"}  # devices whose tensors are read where they lie
DEVICES = {"cuda"}  # devices of which figures can be had later


class Later:
    """One number of a device. It can be added to, multiplied and divided by; `value` is there once
    the mail of its step has been opened.
    """

    __slots__ = ("tensor", "value")

    def __init__(self, tensor: torch.Tensor) -> None:
        # A copy: a loss scale is changed where it lies.
        self.tensor = tensor.detach().reshape(()).to(torch.float64, copy=True)
        self.value: float | None = None

    def __add__(self, other: Any) -> Later:
        return Later(self.tensor + (other.tensor if isinstance(other, Later) else other))

    __radd__ = __add__

    def __mul__(self, other: float) -> Later:
        return Later(self.tensor * other)

    def __rtruediv__(self, other: Any) -> Later:
        return Later(other / self.tensor)


def later(value: torch.Tensor) -> Later | None:
    """The one element of `value`, which is on a device; None if it cannot be had."""
    if value.numel() != 1 or value.device.type not in DEVICES:
        return None
    return Later(value)


def settled(value: Any) -> Any:
    """`value`, or what a Later has turned out to be."""
    return value.value if isinstance(value, Later) else value


class Slip:
    """What was asked of the device in one place: `values` once the mail is opened."""

    __slots__ = ("count", "values")

    def __init__(self) -> None:
        self.count = 0
        self.values: list[float] = []


class Mail:
    """What one step wants to know: scalars and vectors on devices, sent as one copy a device."""

    def __init__(self) -> None:
        self._waiting: list[tuple[tuple[torch.Tensor, ...], Slip]] = []
        self._bringing: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._sent: list[tuple[torch.Tensor, list[Slip]]] = []
        self._events: list[Any] = []

    def put(self, *tensors: torch.Tensor) -> Slip:
        """`tensors`: of no dimension or one, all alike; they must not change any more."""
        slip = Slip()
        self._waiting.append((tensors, slip))
        return slip

    def bring(self, into: torch.Tensor, tensor: torch.Tensor) -> None:
        """`tensor` is copied into memory of the host that its caller owns."""
        self._bringing.append((into, tensor))

    def send(self) -> None:
        """Packs everything and starts the copies, on the current stream of each device."""
        alike: dict[tuple[int, torch.dtype, int], tuple[list[torch.Tensor], list[Slip]]] = {}
        for tensors, slip in self._waiting:
            first = tensors[0]
            group, slips = alike.setdefault(
                (first.get_device(), first.dtype, first.dim()), ([], [])
            )
            group.extend(tensors)
            slip.count = len(tensors) * first.numel()
            slips.append(slip)
        packed: dict[torch.device, tuple[list[torch.Tensor], list[Slip]]] = {}
        for (_, _, dimensions), (group, slips) in alike.items():
            together = torch.cat(group) if dimensions else torch.stack(group)
            parts, of = packed.setdefault(together.device, ([], []))
            parts.append(together.to(torch.float64))
            of.extend(slips)
        for parts, slips in packed.values():
            # From a device this makes pinned memory, which torch keeps until the copy is done.
            copy = torch.cat(parts).to("cpu", non_blocking=True)
            self._sent.append((copy, slips))
        for into, tensor in self._bringing:
            into.copy_(tensor, non_blocking=True)
        for device in {*packed, *(tensor.device for _, tensor in self._bringing)}:
            self._events.append(_mark(device))
        self._waiting.clear()
        self._bringing.clear()

    def arrived(self) -> bool:
        return all(event is None or event.query() for event in self._events)

    def wait(self) -> None:
        """Only where training is over."""
        for event in self._events:
            if event is not None:
                event.synchronize()

    def open(self) -> None:
        """Gives every slip its values."""
        for copy, slips in self._sent:
            values = copy.tolist()
            at = 0
            for slip in slips:
                slip.values = values[at : at + slip.count]
                at += slip.count
        self._sent.clear()


class Parcel:
    """One tensor on its way to the host, by a copy of its own; `value` may be read once it has
    arrived. A tensor of the CPU is there at once.
    """

    __slots__ = ("_event", "value")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.value = tensor.detach().to("cpu", non_blocking=True)
        self._event = _mark(tensor.device)

    def arrived(self) -> bool:
        return self._event is None or bool(self._event.query())

    def wait(self) -> None:
        """Only where training is over."""
        if self._event is not None:
            self._event.synchronize()


def _mark(device: torch.device) -> Any:
    """An event behind what has been asked of `device`; None where nothing is asynchronous."""
    if device.type == "cpu":
        return None
    module = getattr(torch, device.type)
    with module.device(device):
        event = module.Event()
        event.record()
    return event
