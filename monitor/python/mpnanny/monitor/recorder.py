"""The core's recorder of a run, made from the run's options."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..base.record import Record
from ..process.environment import describe, run_name
from .options import Options


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
