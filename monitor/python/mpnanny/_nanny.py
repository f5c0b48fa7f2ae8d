"""MixedPrecisionNanny: the front of the monitor. It listens and hands on; figures and decisions are
the core's (C++).
"""

from __future__ import annotations

import contextlib
import inspect
import os
import time
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import torch
from torch import nn

from . import _process, _taps
from ._alert import Alert
from ._changes import Layers
from ._console import Console
from ._core import Recorder
from ._course import Course, Summary, summarise
from ._device import DeviceSteps
from ._dump import Dump, check_folder
from ._environment import describe, rank_and_size, run_name
from ._follower import harmless
from ._forward import ForwardHooks
from ._kinds import KINDS, METRICS, chosen
from ._layers import Selector, check_selectors
from ._listener import TrainingListener
from ._optimizers import Optimizers, Watched
from ._own_file import current_cell, free_path
from ._progress import Progress
from ._protocol import Protocol
from ._record import RECORDS, Record
from ._states import OptimizerStates
from ._step import OpenStep
from ._still import Still
from ._tracing import Tracing

PRECISIONS = ("auto", "fp16", "bf16", "fp32", "fp8")


class Step:
    """The block of one training step: `with nanny.step(n) as s: …; s.log(loss=loss)`."""

    def __init__(self, nanny: MixedPrecisionNanny, number: int) -> None:
        self._nanny = nanny
        self._number = number

    def __enter__(self) -> Step:
        self._nanny._enter_block(self._number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._nanny._leave_block(kind is not None)

    def log(self, loss: Any = None, lr: Any = None) -> None:
        """The step's loss (without loss scale) and learning rate, as numbers or one-element
        tensors.
        """
        self._nanny._log(loss, lr)


class MixedPrecisionNanny(TrainingListener):
    """Watches the training of `model` and records it into an SQLite database.

    Only `model` is required: optimizer and scaler are found by their own calls. `trace_interval`:
    full statistics every so many steps. `layers`: names, globs, compiled patterns or module classes
    to watch; all by default. `kinds`: what of them (KINDS of _kinds.py), `metrics`: which figures
    are stored (METRICS there); all by default. `precision`: the format that values are judged by;
    "auto" takes the dtype that a tensor has. `on_alert(alert)`: called for each new alert.
    `dense_steps`: full statistics at each of so many steps after an ERROR. `max_db_mb`: past that
    size old samples are thinned 10:1. `record`: "minimal" keeps names, host and script out of the
    file. `dump_on_error`: a folder for the inputs, outputs and parameters of the first layers that
    break, as safetensors. `warmup_steps`: before alerts that compare with the run's own history.
    `alert_window`: steps that a condition must not have held for its next occurrence to be a new
    alert; by default two trace intervals, 50 at least. `arguments`: the script's arguments go into
    the file; they may hold secrets. Wrong arguments raise here; later nothing does.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        scaler: Any = None,
        trace_interval: int = 100,
        db: str | os.PathLike[str] = "nanny_logs/metrics.db",
        layers: Selector | Iterable[Selector] | None = None,
        precision: str = "auto",
        on_alert: Callable[[Alert], None] | None = None,
        dense_steps: int = 50,
        quiet: bool = False,
        name: str | None = None,
        max_db_mb: int = 2048,
        record: str = "full",
        dump_on_error: str | os.PathLike[str] | None = None,
        kinds: str | Iterable[str] | None = None,
        metrics: str | Iterable[str] | None = None,
        warmup_steps: int = 100,
        alert_window: int | None = None,
        arguments: bool = False,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
        if precision not in PRECISIONS:
            raise ValueError(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
        if trace_interval < 1 or dense_steps < 0:
            raise ValueError("trace_interval must be at least 1, dense_steps at least 0")
        if max_db_mb < 1:
            raise ValueError("max_db_mb must be at least 1")
        if record not in RECORDS:
            raise ValueError(f"record {record!r} is not one of {', '.join(RECORDS)}")
        if warmup_steps < 1 or (alert_window is not None and alert_window < 1):
            raise ValueError("warmup_steps and alert_window must be at least 1")
        selectors = check_selectors(layers)
        folder = check_folder(dump_on_error)
        self._dump = Dump(self, folder) if folder else None
        self._kinds = chosen("kinds", kinds, KINDS)
        stored = chosen("metrics", metrics, METRICS)
        self._record = Record(record)
        self._arguments = arguments
        self._recording = False
        self._sampling = False
        self._number = -1
        self._open: OpenStep | None = None
        self._blocks_used = False
        self._optimizers = Optimizers(optimizer, self._follow_model)
        self._trains_in_eval = False
        self._scaler = scaler  # of the main optimizer
        self._scalers: weakref.WeakSet[Any] = weakref.WeakSet()  # all of this model
        if scaler is not None:
            with contextlib.suppress(TypeError):
                self._scalers.add(scaler)
        self._on_alert = on_alert
        self._end_reason = "closed"
        self._notes: list[str] = []
        self._troubles: set[str] = set()
        self._names: dict[int, str] = {}
        self._course = Course(warmup_steps)
        self._progress: Progress | None = None
        self._handle = ""
        self._steps_done = 0
        self._offset = 0
        self._pointed = False
        self._console = Console(quiet)
        self._tracing = Tracing(self, dense_steps)
        self._device = DeviceSteps(self, trace_interval)
        self._model = model
        self._watched = Watched([], [])
        self._parameter_ids: set[int] = set()
        self._forward: ForwardHooks | None = None
        self._core: Any = None
        self._states: OptimizerStates | None = None
        self._still = Still(self)
        self._protocol = Protocol(self)
        self._db = ""
        self._cell = current_cell()
        if _process.in_spawned_import():
            return
        try:
            self._start(
                os.fspath(db),
                name or run_name(),
                trace_interval,
                precision,
                dense_steps,
                selectors,
                max_db_mb,
                stored,
                warmup_steps,
                alert_window or 0,
            )
        except Exception as error:
            self._console.warn(f"not watching: {error}")
            self._give_up(error)

    @classmethod
    def check_options(cls, options: dict[str, Any]) -> None:
        """Raises TypeError if one of `options` has a name that there is not, for those who keep
        them until there is a model.
        """
        inspect.signature(cls).bind(None, **options)

    # --- starting and ending ---

    def _start(
        self,
        db: str,
        name: str,
        trace_interval: int,
        precision: str,
        dense_steps: int,
        selectors: list[Selector] | None,
        max_db_mb: int,
        stored: int,
        warmup_steps: int,
        alert_window: int,
    ) -> None:
        rank, world_size = rank_and_size()
        self._console.rank = rank if world_size > 1 else None
        record = self._record
        self._db = free_path(self, db, rank, world_size)
        self._core = Recorder(
            self._db,
            record.name(name),
            rank,
            world_size,
            time.time(),
            precision,
            trace_interval,
            describe(record.minimal, self._arguments),
            dense_steps,
            max_db_mb,
            kinds=self._kinds,
            metrics=stored,
            warmup_steps=warmup_steps,
            alert_window=alert_window,
        )
        self._states = OptimizerStates(self._core, self._kinds)
        self._recording = True
        if self._core.note:
            self._note(self._core.note)
        self._forward = ForwardHooks(self)
        self._layers = Layers(self, selectors)
        self._layers.follow()
        _taps.add(self)
        _process.add(self)
        self._handle = self.run
        if rank == 0 and not self._console.quiet:
            self._progress = Progress(self._console, self._course)
        self._console.say_for_all(
            f"watching {self._layers.leaves} modules and {len(self._watched.parameters)} "
            f"parameters, recording into {self.run}"
        )

    @harmless
    def _follow_model(self) -> None:
        self._layers.follow()

    def _give_up(self, error: Exception) -> None:
        """After a start that failed half-way: nothing of it stays behind."""
        self._recording = False
        self._stop_listening()
        if self._core is None:
            return
        with contextlib.suppress(Exception):
            self._notes.append(f"the start failed: {self._record.error(error)}")
            self._save_notes()
            self._core.close("exception")

    @property
    def run(self) -> str:
        """The run's handle, `<path>#<run id>`; "" where nothing is recorded. On a network file
        system the path is that of the live file on this machine (notes tell where copies go).
        """
        if self._core is None or not self._recording:
            return ""
        return f"{self._core.place[0]}#{self._core.run_id}"

    def close(self, reason: str = "closed") -> None:
        """Ends the run: everything is written, every hook is gone. Again is harmless."""
        if not self._recording:
            return
        try:
            self._finish_last()
            self._device.deliver(wait=True)
            for text in self._layers.not_seen():
                self._note(text)
        except Exception as error:
            self._trouble("close", error)
        self._recording = False
        self._stop_listening()
        _, published = self._core.place
        if published:
            self._handle = f"{published}#{self._core.run_id}"
        try:
            trouble = self._core.close(reason if reason != "closed" else self._end_reason)
        except Exception as error:
            trouble = str(error)
        self._course.ended = time.perf_counter()
        if trouble:
            self._console.warn(f"the end of the run could not be written: {trouble}")
            return
        for line in self.summary().lines(notes=False):  # they have been said
            self._console.say_for_all(line)

    def summary(self) -> Summary:
        """How the run went so far: a dict of plain values (steps, seconds, loss, loss_scale,
        skipped_steps, alerts by type, worst_layers, notes, run), whose str() is a text. Works after
        close() too.
        """
        return summarise(self._course, self._handle, self._notes)

    def _stop_listening(self) -> None:
        self._tracing.close()
        super()._stop_listening()
        if self._forward is not None:
            self._forward.remove()

    def hooks_off(self) -> contextlib.AbstractContextManager[None]:
        return self._forward.off() if self._forward is not None else contextlib.nullcontext()

    def _abandon(self) -> None:
        """In a forked child: inert, and without a trace of the parent's files."""
        self._recording = False
        self._tracing.forget()
        self._device.forget()
        if self._forward is not None:
            self._forward.remove()
        if self._core is not None:
            self._core.abandon()

    def _expect_end(self, reason: str) -> None:
        self._end_reason = reason
        self._tracing.off()

    @harmless
    def _flush(self) -> None:
        self._device.deliver()
        self._core.flush()

    def step(self, step: int) -> Step:
        """The block of training step `step`. Numbers must grow; where they start again, counting
        goes on.
        """
        return Step(self, step)

    def __enter__(self) -> MixedPrecisionNanny:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close("closed" if kind is None else "exception")

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a pickled copy, as in a spawned worker, watches nothing

    def __setstate__(self, _state: dict[str, Any]) -> None:
        self._recording = False
        self._core = None
        self._course, self._handle, self._notes = Course(), "", []

    def __deepcopy__(self, _memo: Any) -> MixedPrecisionNanny:
        copy = type(self).__new__(type(self))
        copy.__setstate__({})
        return copy


def watch_model(model: nn.Module, **options: Any) -> MixedPrecisionNanny:
    """Watches `model` with nothing else to write: steps are counted by its optimizer. Options as
    MixedPrecisionNanny.
    """
    return MixedPrecisionNanny(model, **options)
