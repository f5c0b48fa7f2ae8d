"""The options of a run, checked where they are given, and the recorder that they ask for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..base.alerts import Alert
from ..base.record import RECORDS, Record
from ..model.kinds import KINDS, METRICS, chosen
from ..model.parts import Selector, check_selectors
from ..process.environment import describe, run_name
from ..shadow.schedule import parse

COMPILED = ("off", "watch")
PRECISIONS = ("auto", "fp16", "bf16", "fp32", "fp8")


@dataclass(frozen=True)
class Options:
    """As MixedPrecisionNanny takes them; a wrong one raises. `selectors`, `folder`, `kind_bits` and
    `metric_bits` are what `layers`, `dump_on_error`, `kinds` and `metrics` mean.
    """

    trace_interval: int
    db: str | os.PathLike[str]
    layers: Selector | Iterable[Selector] | None
    precision: str
    on_alert: Callable[[Alert], None] | None
    dense_steps: int
    quiet: bool
    name: str | None
    max_db_mb: int
    record: str
    dump_on_error: str | os.PathLike[str] | None
    kinds: str | Iterable[str] | None
    metrics: str | Iterable[str] | None
    warmup_steps: int
    alert_window: int | None
    arguments: bool
    compiled: str
    shadow: str
    selectors: list[Selector] | None = field(init=False)
    folder: str | None = field(init=False)
    kind_bits: int = field(init=False)
    metric_bits: int = field(init=False)

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision {self.precision!r} is not one of {', '.join(PRECISIONS)}")
        if self.trace_interval < 1 or self.dense_steps < 0:
            raise ValueError("trace_interval must be at least 1, dense_steps at least 0")
        if self.max_db_mb < 1:
            raise ValueError("max_db_mb must be at least 1")
        if self.record not in RECORDS:
            raise ValueError(f"record {self.record!r} is not one of {', '.join(RECORDS)}")
        if self.warmup_steps < 1 or (self.alert_window is not None and self.alert_window < 1):
            raise ValueError("warmup_steps and alert_window must be at least 1")
        if self.compiled not in COMPILED:
            raise ValueError(f"compiled {self.compiled!r} is not one of {', '.join(COMPILED)}")
        parse(self.shadow)
        for name, value in (
            ("selectors", check_selectors(self.layers)),
            ("folder", check_folder(self.dump_on_error)),
            ("kind_bits", chosen("kinds", self.kinds, KINDS)),
            ("metric_bits", chosen("metrics", self.metrics, METRICS)),
        ):
            object.__setattr__(self, name, value)  # the way of a frozen dataclass


def check_folder(folder: Any) -> str | None:
    """dump_on_error as given by the user."""
    if folder is None or folder == "":
        return None
    if not isinstance(folder, (str, os.PathLike)):
        raise TypeError(f"dump_on_error must be a folder, not {type(folder).__name__}")
    return os.path.abspath(os.fspath(folder))


def open_recorder(
    make: Callable[..., Any], db: str, record: Record, options: Options, rank: int, world_size: int
) -> Any:
    """`make`: the core's class, or one like it. It raises OSError where `db` cannot be written."""
    return make(
        db,
        record.name(options.name or run_name()),
        rank,
        world_size,
        time.time(),
        options.precision,
        options.trace_interval,
        describe(record.minimal, options.arguments),
        options.dense_steps,
        options.max_db_mb,
        kinds=options.kind_bits,
        metrics=options.metric_bits,
        warmup_steps=options.warmup_steps,
        alert_window=options.alert_window or 0,
    )
