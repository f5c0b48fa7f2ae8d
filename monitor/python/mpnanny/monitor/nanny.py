"""MixedPrecisionNanny: what people import. It checks the options and hands on to the session."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import torch
from torch import nn

from .._core import Recorder
from ..base.alerts import Alert
from ..base.console import Console
from ..model.parts import Selector
from ..process.ends import in_spawned_import
from ..report.course import Course, Summary, summarise
from .calls import TorchCalls
from .options import Options
from .session import Session


class Step:
    """The block of one training step: `with nanny.step(n) as s: …; s.log(loss=loss)`."""

    def __init__(self, session: Session | None, number: int) -> None:
        self._session = session
        self._number = number

    def __enter__(self) -> Step:
        if self._session is not None:
            self._session.steps.enter_block(self._number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            self._session.steps.leave_block(kind is not None)

    def log(self, loss: Any = None, lr: Any = None) -> None:
        """The step's loss (without loss scale) and learning rate, as numbers or one-element
        tensors.
        """
        if self._session is not None:
            self._session.steps.log(loss, lr)


class MixedPrecisionNanny:
    """Watches the training of `model` and records it into an SQLite database.

    Only `model` is required: optimizer and scaler are found by their own calls. `trace_interval`:
    full statistics every so many steps. `layers`: names, globs, compiled patterns or module classes
    to watch; all by default. `kinds`: what of them (`KINDS` in model/kinds.py), `metrics`: which
    figures are stored (`METRICS` there); all by default. `precision`: the format that values are
    judged by; "auto" takes the dtype that a tensor has. `on_alert(alert)`: called for each new
    alert. `dense_steps`: full statistics at each of so many steps after an ERROR. `max_db_mb`: past
    that size old samples are thinned 10:1. `record`: "minimal" keeps names, host and script out of
    the file. `dump_on_error`: a folder for the inputs, outputs and parameters of the first layers
    that break, as safetensors. `warmup_steps`: before alerts that compare with the run's own
    history. `alert_window`: steps that a condition must not have held for its next occurrence to be
    a new alert; by default two trace intervals, 50 at least. `arguments`: the script's arguments go
    into the file; they may hold secrets. `compiled`: "watch" also watches, in sampled steps, the
    modules that torch.compile runs. It keeps values that the compiler would have fused away, so the
    bits may differ from those of the same compiled training without it; "off" leaves them alone.
    `shadow`: which steps are run a second time in FP64, to measure where precision is lost
    (docs/shadow.md): "auto", "every=N", "steps=A-B" or "off"; beside it "layers=GLOB,…" follows
    only what runs inside of these modules, and "eager" runs the shadow steps of what torch.compile
    has made eagerly, whose bits are not those of compiled steps: "every=200 layers=encoder.*,head
    eager"; "replay" runs each deterministic operator again in its own type and compares the bits.
    Wrong arguments raise here; later nothing does.
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
        compiled: str = "off",
        shadow: str = "auto",
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
        options = Options(
            trace_interval=trace_interval,
            db=db,
            layers=layers,
            precision=precision,
            on_alert=on_alert,
            dense_steps=dense_steps,
            quiet=quiet,
            name=name,
            max_db_mb=max_db_mb,
            record=record,
            dump_on_error=dump_on_error,
            kinds=kinds,
            metrics=metrics,
            warmup_steps=warmup_steps,
            alert_window=alert_window,
            arguments=arguments,
            compiled=compiled,
            shadow=shadow,
        )
        self._session: Session | None = None  # where nothing is watched
        self._model: nn.Module | None = model
        if in_spawned_import():
            return
        console = Console(quiet)
        try:
            self._session = Session(model, optimizer, scaler, options, console, Recorder)
        except Exception as error:
            console.warn(f"not watching: {error}")

    @classmethod
    def check_options(cls, options: dict[str, Any]) -> None:
        """Raises TypeError if one of `options` has a name that there is not, for those who keep
        them until there is a model.
        """
        inspect.signature(cls).bind(None, **options)

    @property
    def run(self) -> str:
        """The run's handle, `<path>#<run id>`; "" where nothing is recorded. On a network file
        system the path is that of the live file on this machine (notes say where copies go).
        """
        return "" if self._session is None else self._session.run

    @property
    def model(self) -> nn.Module | None:
        """The model; None in a copy, which watches nothing."""
        return self._model

    @property
    def calls(self) -> TorchCalls | None:
        """What hears torch's calls for this run; for what begins runs while one is handed out."""
        return None if self._session is None else self._session.calls

    @property
    def newest_step(self) -> int:
        """The number of the newest step that has begun, -1 before the first."""
        return -1 if self._session is None else self._session.state.number

    def step(self, step: int) -> Step:
        """The block of training step `step`. Numbers must grow; where they start again, counting
        goes on.
        """
        return Step(self._session, step)

    def note(self, text: str) -> None:
        """Adds `text` to what the run's record says of what could not be watched."""
        if self._session is not None:
            self._session.notes.note(text)

    def event(self, kind: str, detail: str) -> None:
        """Adds an event to the run's record, at the newest step. `detail`: JSON."""
        if self._session is not None:
            self._session.event(kind, detail)

    def count_from(self, step: int) -> None:
        """Without blocks: the next step has this number, if none has begun yet."""
        if self._session is not None:
            self._session.steps.count_from(step)

    def expect_steps(self, steps: int) -> None:
        """The training will have `steps` steps: shadow steps are spread over them."""
        if self._session is not None:
            self._session.shadow.expect(steps)

    def summary(self) -> Summary:
        """How the run went so far: a dict of plain values (steps, seconds, loss, loss_scale,
        skipped_steps, alerts by type, worst_layers, notes, run, and after close() verdict, the
        first line of `mpnanny diagnose`), whose str() is a text.
        """
        if self._session is None:
            return summarise(Course(), "", [])
        return self._session.summary()

    def close(self, reason: str = "closed") -> None:
        """Ends the run: everything is written, every hook is gone. Again is harmless."""
        if self._session is not None:
            self._session.close(reason)

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
        self._session = None
        self._model = None

    def __deepcopy__(self, _memo: Any) -> MixedPrecisionNanny:
        copy = type(self).__new__(type(self))
        copy.__setstate__({})
        return copy


def watch_model(model: nn.Module, **options: Any) -> MixedPrecisionNanny:
    """Watches `model` with nothing else to write: steps are counted by its optimizer. Options as
    MixedPrecisionNanny.
    """
    return MixedPrecisionNanny(model, **options)
