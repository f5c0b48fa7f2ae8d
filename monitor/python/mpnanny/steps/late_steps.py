"""Steps whose tensors are on a device: noted as they go, reported when the figures arrive.

The core judges a step by what is in its tensors, and the figures of a device arrive some steps
later. So a step on a device is written down (which module ran, with which tensors) while the device
works out the figures behind it, and is reported to the core in the same calls and the same order as
ever once its mail is there, at a following step or at the end. What it raises carries its own
number.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from .. import _core
from ..base.alerts import AlertTuple
from ..base.device_kernels import launches_on
from ..base.later import DEVICES, HOST, Later, Mail, Slip, settled
from ..base.notes import Notes
from ..model.watched import WatchedModel
from ..operators.modes import own_work
from .device_updates import DeviceUpdates
from .figures import extremes, readable
from .gathered import EXTREMES, LARGEST, NORM, WHOLE, Gathered, Reader
from .listeners import StepListener
from .step import OpenStep

# Steps that may be under way at once. A device is a few behind; more means that its events never
# come, and what is written down must not grow.
UNDER_WAY = 64


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """What is asked of a device is no part of the training: no gradient and no mode of the monitor
    sees it.
    """
    with torch.no_grad(), own_work():
        yield


class _LateStep:
    """A step that has begun and has not been reported."""

    def __init__(
        self, core: Any, number: int, sampled: bool, reader: Reader | None, at_once: set[int]
    ) -> None:
        self.number = number
        self.sampled = sampled
        self.mail = Mail()
        self.gathered = Gathered(core, self.mail, reader, sampled, at_once)
        self.updates = DeviceUpdates(self.mail)
        # What is to be told to the core, each with how many calls of modules come before it.
        self.others: list[tuple[int, Callable[[Any], None]]] = []
        self.weighed: tuple[list[Any], list[int]] = ([], [])  # parameters before it, their numbers
        self.posted: dict[Later, int] = {}
        self.step: OpenStep | None = None
        self.arguments: tuple[Any, ...] = ()
        self.lost = False  # the device could not be asked

    def then(self, tell: Callable[[Any], None]) -> None:
        """Calls `tell` with the core behind the modules that have run by now."""
        self.others.append((self.gathered.calls(), tell))

    def post(self, value: Any) -> None:
        """Asks for `value` if it is of the device."""
        if isinstance(value, Later) and value not in self.posted:
            self.posted[value] = self.gathered.add(value.tensor, EXTREMES)

    def readings(self, numbers: list[int]) -> list[tuple[int, Any]]:
        """What the core takes for these, each with its place, as far as it is known."""
        found = ((at, self.gathered.reading(number)) for at, number in enumerate(numbers))
        return [(at, reading) for at, reading in found if reading is not None]

    def report(self, core: Any, own_of: Callable[[int], list[Any]]) -> None:
        """Tells the core everything, in its order; once the mail is open."""
        told = 0
        for calls, tell in self.others:
            self.gathered.report(told, calls, own_of)
            told = calls
            tell(core)
        self.gathered.report(told, self.gathered.calls(), own_of)


class DeviceSteps(StepListener):
    """The part of one run for steps on a device. The functions that a hook calls are the core's,
    with tensors of a device. `ended(step, alerts)` takes what the core says of a step.
    """

    def __init__(
        self,
        core: Any,
        model: WatchedModel,
        notes: Notes,
        trace_interval: int,
        ended: Callable[[OpenStep, list[AlertTuple]], None],
    ) -> None:
        self._core = core
        self._model = model
        self._notes = notes
        self._ended = ended
        self._interval = trace_interval
        self._under_way: deque[_LateStep] = deque()
        self._open: _LateStep | None = None
        self._first = True
        self._at_once: set[int] = set()  # layers whose outputs are written soon after
        self._reader: Reader | None = None
        self.modules: dict[int, nn.Module] = {}  # leaves, by layer
        # Takes a module's call (Gathered.note); True: it is time to ask. None while the open step
        # is not on a device.
        self.gather: Callable[[int, bool, Any, Any], bool] | None = None

    name = "steps on a device"

    # --- as a step goes on ---

    def begin(self, number: int) -> bool | None:
        """Whether the step is sampled; None if it is not on a device."""
        parameters = self._model.parameters.parameters
        ends = (*parameters[:1], *parameters[-1:])
        found = [each for each in ends if each.device.type in DEVICES - HOST]
        if not (self._under_way or found):
            self.gather = None
            return None
        sampled = self._first or number % self._interval == 0 or _core.dense(self._core)
        self._first = False
        reader = self._reader_of(found[0]) if found else None
        late = self._open = _LateStep(self._core, number, sampled, reader, self._at_once)
        self.gather = late.gathered.note
        # Whether the weights are finite before the step decides whom a NaN is blamed on.
        weights = list(parameters)
        late.weighed = (weights, late.gathered.read(weights, LARGEST))
        return sampled

    def _reader_of(self, like: torch.Tensor) -> Reader | None:
        """By our kernels, once they are compiled, which goes on beside the training."""
        reader = self._reader
        if reader is None or reader.like.device != like.device:
            reader = self._reader = Reader(launches_on(like.device), like)
        if reader.launches.are_ready():
            return reader
        if reader.launches.why:
            self._notes.note(
                "a device's tensors are read by torch's operators, which is slower:"
                f" {reader.launches.why}"
            )
        return None

    def blaming(self, blame: Callable[[Any], None]) -> Callable[[int, bool, Any, Any], bool] | None:
        """As `gather`; `blame` takes each output as well."""
        gather = self.gather
        if gather is None:
            return None

        def both(layer: int, leaf: bool, inputs: Any, output: Any) -> bool:
            blame(output)
            return gather(layer, leaf, inputs, output)

        return both

    def ask(self) -> None:
        """Asks for what was noted so far."""
        if self._open is not None:
            self._open.gathered.ask()

    def backward_begins(self, step: OpenStep, losses: Any) -> None:
        """What was gathered is asked for, before its memory is needed again."""
        self.ask()

    def activation_gradient(self, layer: int, slot: int, factor: Any, gradient: Any) -> None:
        late = self._open
        if late is None:
            return
        late.post(factor)
        number = late.gathered.add(gradient, WHOLE, layer)

        def tell(core: Any) -> None:
            for _, reading in late.readings([number]):
                core.activation_gradient(layer, slot, settled(factor), reading)

        late.then(tell)

    def weights(self, layers: list[int], parameters: list[Any]) -> None:
        late = self._open
        if late is None:
            return
        numbers = late.gathered.read(parameters, WHOLE)

        def tell(core: Any) -> None:
            found = late.readings(numbers)
            core.weights([layers[at] for at, _ in found], [each for _, each in found])

        late.then(tell)

    def gradients(self, layers: list[int], gradients: list[Any], factor: Any) -> bool:
        """False: whether one is not finite is known later."""
        late = self._open
        if late is None:
            return False
        late.post(factor)
        numbers = late.gathered.read(gradients, WHOLE if late.sampled else NORM)

        def tell(core: Any) -> None:
            found = late.readings(numbers)
            known = [layers[at] for at, _ in found], [each for _, each in found]
            core.gradients(*known, settled(factor))

        late.then(tell)
        return False

    def optimizer_states(
        self, layers: list[int], slots: list[int], tensors: list[Any], eps: list[float]
    ) -> None:
        late = self._open
        if late is None:
            return
        numbers = late.gathered.read(tensors, WHOLE)

        def tell(core: Any) -> None:
            found = late.readings(numbers)
            core.optimizer_states(
                [layers[at] for at, _ in found],
                [slots[at] for at, _ in found],
                [each for _, each in found],
                [eps[at] for at, _ in found],
            )

        late.then(tell)

    def before_update(self, layers: list[int], weights: list[Any]) -> None:
        if self._open is not None and layers:
            with unseen():
                self._open.updates.before(layers, weights)

    def after_update(
        self, layers: list[int], weights: list[Any], gradients: list[Any], judge: list[bool]
    ) -> None:
        late = self._open
        if late is None or not layers:
            return
        with unseen():
            tell = late.updates.after(layers, weights, gradients, judge)
        if tell is not None:
            late.then(tell)

    def ends_of(self, tensor: torch.Tensor) -> Slip | None:
        """Smallest and largest element of a tensor of the device, both NaN if one is."""
        late, plain = self._open, readable(tensor)
        if late is None or plain is None or plain.device.type in HOST:
            return None
        return late.mail.put(*extremes(plain))

    def also(self, report: Callable[[Any], None]) -> None:
        """Calls `report` with the core when the open step is reported to it, before its end."""
        if self._open is not None:
            self._open.then(report)

    def end(self, step: OpenStep, arguments: tuple[Any, ...]) -> None:
        """The step has ended: its mail goes off."""
        late, self._open = self._open, None
        if late is None:
            return
        for value in (*arguments, *vars(step).values()):
            late.post(value)
        late.gathered.ask()
        with unseen():
            late.gathered.send()
            try:
                late.mail.send()
            except Exception as error:  # the step itself is still reported
                self._notes.trouble("reading a device", error)
                late.mail, late.lost = Mail(), True
        late.step, late.arguments = step, arguments
        self._under_way.append(late)

    # --- afterwards ---

    def deliver(self, wait: bool = False) -> None:
        """Reports to the core the steps whose mail is there, in their order. `wait`: all."""
        while self._under_way:
            late = self._under_way[0]
            given_up = False
            if wait:
                late.mail.wait()
            elif not late.mail.arrived():
                given_up = len(self._under_way) > UNDER_WAY
                if not given_up:
                    return
            self._under_way.popleft()
            self._report(late, given_up)

    def _report(self, late: _LateStep, given_up: bool) -> None:
        step = late.step
        if step is None:
            return
        _core.begin_late(self._core, late.number, late.sampled and not given_up)
        if given_up:
            self._notes.note(f"figures of a device did not arrive within {UNDER_WAY} steps")
        elif not late.lost:
            late.mail.open()
            late.gathered.arrived()
            for value, number in late.posted.items():
                value.value = late.gathered.value(number)
            late.report(self._core, lambda layer: self._own_of(late, layer))
        step.settle()
        self._ended(step, self._core.end_step(*map(settled, late.arguments)))

    def _own_of(self, late: _LateStep, layer: int) -> list[Any]:
        """What the core takes for the weights that a module had before the step."""
        module = self.modules.get(layer)
        own = () if module is None else module._parameters.values()
        ids = {id(each) for each in own if each is not None}
        numbers = [at for each, at in zip(*late.weighed, strict=True) if id(each) in ids]
        return [reading for _, reading in late.readings(numbers)]

    def forget(self) -> None:
        """In a forked child, where the parent's device is out of reach."""
        self._under_way.clear()
        self._open, self.gather = None, None
        self._reader = None
