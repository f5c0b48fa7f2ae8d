from collections.abc import Sequence
from typing import Any

version: str

AlertTuple = tuple[int, str, int | None, str, str, float | None, float | None, bool | None, str]

class Recorder:
    def __init__(
        self,
        path: str,
        name: str,
        rank: int,
        world_size: int,
        started_at: float,
        precision: str,
        trace_interval: int,
        environment: str,
        dense_steps: int,
        max_db_mb: int,
        network: bool | None = None,
        kinds: int = ...,
        metrics: int = ...,
        warmup_steps: int = ...,
        alert_window: int = ...,
    ) -> None: ...
    @property
    def run_id(self) -> int: ...
    @property
    def note(self) -> str: ...
    @property
    def place(self) -> tuple[str, str]: ...
    def add_layer(
        self, name: str, type: str | None, source: str | None, numel: int, leaf: bool
    ) -> int: ...
    def begin_step(self, step: int) -> bool: ...
    def observe(self, layer: int, args: Any, output: Any) -> bool: ...
    def explain(self, layer: int, args: Any, output: Any, parameters: Any) -> None: ...
    def gradients(self, layers: list[int], tensors: list[Any], inverse_scale: float) -> bool: ...
    def weights(self, layers: list[int], tensors: list[Any]) -> None: ...
    def before_update(self, layers: list[int], weights: list[Any]) -> None: ...
    def after_update(
        self, layers: list[int], weights: list[Any], gradients: list[Any], judge: list[bool]
    ) -> None: ...
    def optimizer_states(
        self, layers: list[int], slots: list[int], tensors: list[Any], eps: list[float]
    ) -> None: ...
    def activation_gradient(
        self, layer: int, slot: int, inverse_scale: float, tensor: Any
    ) -> None: ...
    def nan_origin(
        self,
        phase: str,
        name: str,
        source: str | None,
        module: int | None,
        nan: bool,
        count: int,
        message: str,
        operators_json: str,
    ) -> int: ...
    def broken_buffers(self, which: str, buffers_json: str) -> None: ...
    def explained(self) -> str: ...
    def publish(
        self,
        at: float,
        duration: float | None,
        loss: float | None,
        lr: float | None,
        scale: float | None,
        scale_after: float | None,
        growth_interval: int,
        skipped: bool,
        peak_memory: int | None,
    ) -> None: ...
    def end_step(
        self,
        at: float,
        duration: float | None,
        loss: float | None,
        lr: float | None,
        scale: float | None,
        scale_after: float | None,
        growth_interval: int,
        skipped: bool,
        peak_memory: int | None,
    ) -> list[AlertTuple]: ...
    def shadow_step(
        self,
        step: int,
        why: str | None,
        seconds: float | None,
        plain_seconds: float | None,
        operators: int | None,
        compared: int | None,
        restarted: int | None,
        memory: int | None,
        detail_json: str | None = None,
    ) -> None: ...
    def shadow_finding(
        self,
        finding_id: int,
        step: int,
        kind: str,
        severity: str,
        phase: str | None,
        layer: int | None,
        operator: str,
        source: str | None,
        dtype: str | None,
        shape: str | None,
        share: float | None,
        magnitude: float | None,
        error_in: float | None,
        error_out: float | None,
        precision: str,
        reach_json: str | None,
        cure_json: str | None,
        detail_json: str | None = None,
    ) -> int:
        """A finding: `finding_id` 0 a new one, else what an earlier call returned, of which the
        last step, the repeats and, where they are no better, the figures change. Returns its id; 0:
        left out. One of severity ERROR or WARNING is among the next end_step()'s alerts.
        """

    def shadow_profile(
        self,
        step: int,
        layer: int,
        phase: int,
        dtype: int | None,
        operators: int | None,
        error: float | None,
        amplification: float | None,
        absmax: float | None,
        rms: float | None,
        fp16: float | None,
        bf16: float | None,
        e4m3: float | None,
        e5m2: float | None,
        fp16_overflow: float | None,
        fp16_underflow: float | None,
    ) -> None: ...
    def event(self, step: int | None, type: str, detail: str | None) -> None: ...
    def set_notes(self, json: str) -> None: ...
    def gradients_in_fp16(self, scale: float) -> tuple[int, int, int] | None: ...
    def flush(self) -> None: ...
    def failure(self) -> str: ...
    def unseen(self) -> list[str]: ...
    def unreadable(self) -> list[str]: ...
    def close(self, reason: str) -> str: ...
    def abandon(self) -> None: ...

def alert_types() -> Sequence[tuple[str, str, str]]: ...
def nonfinite(tensors: Any) -> int: ...
def figures(tensors: Any) -> tuple[int, int, int, int, float | None]: ...

class Reading:
    """Stands for a tensor whose figures came from a device."""

def whole(dtype: str, numel: int, figures: list[float]) -> Reading: ...
def extremes(dtype: str, numel: int, low: float, high: float) -> Reading: ...
def norm(dtype: str, numel: int, value: float) -> Reading: ...
def begin_late(recorder: Recorder, step: int, sampled: bool) -> None: ...
def dense(recorder: Recorder) -> bool: ...
def compare(held: Any, reference: Any) -> tuple[Any, ...] | None: ...
def compare_change(
    held_before: Any, held_after: Any, reference_before: Any, reference_after: Any
) -> tuple[Any, ...] | None: ...
def format_errors(tensor: Any) -> tuple[Any, ...] | None: ...
def format_loss(tensor: Any, format: str, scale: int) -> tuple[Any, ...] | None: ...
def dimension_losses(tensor: Any, format: str) -> list[tuple[Any, ...]] | None: ...
