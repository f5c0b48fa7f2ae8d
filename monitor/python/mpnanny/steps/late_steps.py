"""Steps whose tensors are on a device: noted as they go, reported when the figures arrive.

The core judges a step by what is in its tensors, and the figures of a device arrive some steps
later. So a step on a device is written down (which module ran, with which tensors) while torch's
operators work out the figures behind it, and is reported to the core in the same calls and the same
order as ever once its mail is there, at a following step or at the end. What it raises carries its
own number.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch

from .. import _core
from ..base.alerts import AlertTuple
from ..base.later import DEVICES, HOST, Later, Mail, Slip, settled
from ..base.notes import Notes
from ..model.watched import WatchedModel
from ..operators.modes import own_work
from .figures import extremes, norms, parts, readable, whole
from .gathered import Gathered, collect
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


class Reading:
    """A tensor's figures, on their way."""

    def __init__(
        self, tensor: torch.Tensor, slips: list[Slip], make: Callable[[str, int, list[Slip]], Any]
    ) -> None:
        self._dtype = tensor.dtype
        self._numel = tensor.numel()
        self._slips = slips
        self._make = make
        self.whole = make is _make_whole
        self._made: Any = None

    def arrived(self) -> Any:
        """What the core takes for the tensor; only once the mail is open."""
        if self._made is None:
            name = str(self._dtype).removeprefix("torch.")
            self._made = self._make(name, self._numel, self._slips)
        return self._made


def _make_whole(dtype: str, numel: int, slips: list[Slip]) -> Any:
    figures: list[float] = []
    for at in range(0, len(slips), 3):
        counts, ends, moments = (slip.values for slip in slips[at : at + 3])
        figures += [*counts[:5], *ends, *moments, *counts[5:]]
    return _core.whole(dtype, numel, figures)


def _make_extremes(dtype: str, numel: int, slips: list[Slip]) -> Any:
    return _core.extremes(dtype, numel, *slips[0].values)


def _readable_of(layers: list[int], tensors: list[Any]) -> list[tuple[int, torch.Tensor]]:
    """Those that can be read, each with its layer."""
    return [
        (layer, tensor)
        for layer, each in zip(layers, tensors, strict=True)
        if (tensor := readable(each)) is not None
    ]


class Norms:
    """Of many tensors, on their way. `order`: infinite for the largest magnitudes."""

    def __init__(self, mail: Mail, tensors: list[torch.Tensor], order: float) -> None:
        self._dtypes = [each.dtype for each in tensors]
        self._numels = [each.numel() for each in tensors]
        self._slips: list[tuple[Slip, list[int]]] = []  # and the places of its values
        values = norms(tensors, order)
        alike: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for at, value in enumerate(values):
            alike.setdefault((value.device, value.dtype), []).append(at)
        for places in alike.values():
            self._slips.append((mail.put(*(values[at] for at in places)), places))
        self._readings: list[Any] = []

    def arrived(self) -> list[Any]:
        """What the core takes for each tensor; only once the mail is open."""
        if not self._readings:
            self._readings = [None] * len(self._dtypes)
            for slip, places in self._slips:
                for at, value in zip(places, slip.values, strict=True):
                    name = str(self._dtypes[at]).removeprefix("torch.")
                    self._readings[at] = _core.norm(name, self._numels[at], value)
        return self._readings


def _report_gathered(
    late: _LateStep, layer: int, given: list[int], got: list[int], own: tuple[Any, ...], core: Any
) -> None:
    entered, made = late.gathered.readings(given), late.gathered.readings(got)
    if core.observe(layer, entered, made):
        core.explain(layer, entered, made, late.weights_of(own))


class _LateStep:
    """A step that has begun and has not been reported."""

    def __init__(self, number: int, sampled: bool) -> None:
        self.number = number
        self.sampled = sampled
        self.mail = Mail()
        self.gathered = Gathered(self.mail)  # between samples
        self.calls: list[Callable[[Any], None]] = []
        self.known: dict[int, tuple[Any, int, Any]] = {}  # by the tensor's id, while it lives
        self.parameters: dict[int, int] = {}  # place among the weights, by the parameter's id
        self.weights: Norms | None = None  # before the step
        self.posted: list[tuple[Later, Slip]] = []
        self.step: OpenStep | None = None
        self.arguments: tuple[Any, ...] = ()

    def post(self, value: Any) -> None:
        """Puts `value` into the mail if it is of the device."""
        if isinstance(value, Later) and all(value is not each for each, _ in self.posted):
            self.posted.append((value, self.mail.put(value.tensor)))

    def weights_of(self, parameters: Iterable[Any]) -> list[Any]:
        """What the core takes for these; once the mail is open."""
        if self.weights is None:
            return []
        places = [self.parameters.get(id(each)) for each in parameters]
        return [self.weights.arrived()[at] for at in places if at is not None]


class DeviceSteps(StepListener):
    """The part of one run for steps on a device. `on` while the open step is one; the functions
    that a hook calls are the core's, with tensors of a device. `ended(step, alerts)` takes what the
    core says of a step.
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
        self.on = False
        # Takes the output of each module while operators are traced (tracing).
        self.blame: Callable[[Any], None] | None = None

    name = "steps on a device"

    # --- as a step goes on ---

    def begin(self, number: int) -> bool | None:
        """Whether the step is sampled; None if it is not on a device."""
        parameters = self._model.parameters.parameters
        devices = {each.device.type for each in (*parameters[:1], *parameters[-1:])}
        self.on = bool(self._under_way) or bool(devices - HOST & DEVICES)
        if not self.on:
            return None
        sampled = self._first or number % self._interval == 0 or _core.dense(self._core)
        self._first = False
        self._open = _LateStep(number, sampled)
        with unseen():
            self._read_weights(self._open)
        return sampled

    def _read_weights(self, late: _LateStep) -> None:
        """Whether the weights are finite before the step: it decides whom a NaN is blamed on."""
        parameters = [
            (parameter, tensor)
            for parameter in self._model.parameters.parameters
            if (tensor := readable(parameter)) is not None
        ]
        late.parameters = {id(parameter): at for at, (parameter, _) in enumerate(parameters)}
        late.weights = Norms(late.mail, [tensor for _, tensor in parameters], math.inf)

    def observe(self, layer: int, leaf: bool, inputs: Any, output: Any, own: Iterable[Any]) -> None:
        """A module's forward call. The figures of inputs are mostly known: they are outputs."""
        late = self._open
        if late is None:
            return
        if self.blame is not None:
            self.blame(output)
        own = tuple(own) if leaf else ()
        if not late.sampled and layer not in self._at_once:
            given, got = late.gathered.note(inputs, 0), late.gathered.note(output, layer)
            late.calls.append(partial(_report_gathered, late, layer, given, got, own))
            return
        with unseen():
            whole_too = late.sampled and leaf
            gone = self._read_all(late, collect(output, []), whole_too)
            came = self._read_all(late, collect(inputs, []), whole_too)

        def report(core: Any) -> None:
            given, got = [each.arrived() for each in came], [each.arrived() for each in gone]
            if core.observe(layer, given, got):
                core.explain(layer, given, got, late.weights_of(own))

        late.calls.append(report)

    def backward_begins(self, step: OpenStep, losses: Any) -> None:
        """What was gathered is asked for, before its memory is needed again."""
        if self._open is not None:
            self._ask(self._open)

    def _ask(self, late: _LateStep) -> None:
        late.gathered.ask()
        self._at_once |= late.gathered.written

    def _read_all(
        self, late: _LateStep, tensors: list[torch.Tensor], all_figures: bool
    ) -> list[Reading]:
        found = []
        for each in tensors:
            tensor = readable(each)
            if tensor is None:
                continue
            # The same object, and nothing written into it since: its figures are known.
            version = -1 if each.is_inference() else each._version
            alive, seen, reading = late.known.get(id(each), (None, 0, None))
            same = alive is not None and alive() is each and seen == version >= 0
            if not same or (all_figures and not reading.whole):
                reading = self._read(late, tensor, all_figures)
                late.known[id(each)] = (weakref.ref(each), version, reading)
            found.append(reading)
        return found

    @staticmethod
    def _read(late: _LateStep, tensor: torch.Tensor, all_figures: bool) -> Reading:
        if not all_figures:
            return Reading(tensor, [late.mail.put(*extremes(tensor))], _make_extremes)
        slips = [late.mail.put(each) for part in parts(tensor) for each in whole(part)]
        return Reading(tensor, slips, _make_whole)

    def activation_gradient(self, layer: int, slot: int, factor: Any, gradient: Any) -> None:
        late = self._open
        tensor = readable(gradient)
        if late is None or tensor is None:
            return
        with unseen():
            late.post(factor)
            reading = self._read(late, tensor, True)
        late.calls.append(
            lambda core: core.activation_gradient(layer, slot, settled(factor), reading.arrived())
        )

    def weights(self, layers: list[int], parameters: list[Any]) -> None:
        late = self._open
        if late is None:
            return
        reported, readings = self._read_parameters(late, layers, parameters)
        late.calls.append(
            lambda core: core.weights(reported, [each.arrived() for each in readings])
        )

    def gradients(self, layers: list[int], gradients: list[Any], factor: Any) -> bool:
        """False: whether one is not finite is known later."""
        late = self._open
        if late is None:
            return False
        if late.sampled:
            reported, readings = self._read_parameters(late, layers, gradients)
        else:
            pairs = _readable_of(layers, gradients)
            reported = [layer for layer, _ in pairs]
            with unseen():
                light = Norms(late.mail, [tensor for _, tensor in pairs], 2.0)
        with unseen():
            late.post(factor)

        def report(core: Any) -> None:
            found = [each.arrived() for each in readings] if late.sampled else light.arrived()
            core.gradients(reported, found, settled(factor))

        late.calls.append(report)
        return False

    def _read_parameters(
        self, late: _LateStep, layers: list[int], tensors: list[Any]
    ) -> tuple[list[int], list[Reading]]:
        pairs = _readable_of(layers, tensors)
        with unseen():
            readings = [self._read(late, tensor, True) for _, tensor in pairs]
        return [layer for layer, _ in pairs], readings

    def optimizer_states(
        self, layers: list[int], slots: list[int], tensors: list[Any], eps: list[float]
    ) -> None:
        late = self._open
        if late is None:
            return
        found = [(at, x) for at, each in enumerate(tensors) if (x := readable(each)) is not None]
        with unseen():
            readings = [self._read(late, tensor, True) for _, tensor in found]

        def report(core: Any) -> None:
            core.optimizer_states(
                [layers[at] for at, _ in found],
                [slots[at] for at, _ in found],
                [each.arrived() for each in readings],
                [eps[at] for at, _ in found],
            )

        late.calls.append(report)

    def before_update(self, *_: Any) -> None:
        """Updates of a device are not read yet: they want the weights as they were."""

    def after_update(self, *_: Any) -> None:
        """See before_update()."""

    def ask(self, tensor: torch.Tensor) -> Slip | None:
        """Smallest and largest element of a tensor of the device, both NaN if one is."""
        late, plain = self._open, readable(tensor)
        if late is None or plain is None or plain.device.type in HOST:
            return None
        return late.mail.put(*extremes(plain))

    def also(self, report: Callable[[Any], None]) -> None:
        """Calls `report` with the core when the open step is reported to it, before its end."""
        if self._open is not None:
            self._open.calls.append(report)

    def end(self, step: OpenStep, arguments: tuple[Any, ...]) -> None:
        """The step has ended: its mail goes off."""
        late, self._open = self._open, None
        if late is None:
            return
        self._ask(late)
        with unseen():
            for value in (*arguments, *vars(step).values()):
                late.post(value)
            try:
                late.mail.send()
            except Exception as error:  # the step itself is still reported
                self._notes.trouble("reading a device", error)
                late.calls.clear()
                late.posted.clear()
                late.mail = Mail()
        late.step, late.arguments = step, arguments
        late.known.clear()
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
        else:
            late.mail.open()
            for value, slip in late.posted:
                value.value = slip.values[0]
            for call in late.calls:
                call(self._core)
        step.settle()
        self._ended(step, self._core.end_step(*map(settled, late.arguments)))

    def forget(self) -> None:
        """In a forked child, where the parent's device is out of reach."""
        self._under_way.clear()
        self._open, self.on = None, False
