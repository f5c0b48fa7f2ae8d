from collections.abc import Callable, Sequence
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
    def rank_figure(
        self,
        step: int,
        layer: int,
        what: int,
        holders: str | None,
        first: int,
        figures: tuple[int, int, int, float, float, float],
    ) -> None: ...
    def collective(
        self,
        step: int,
        sequence: int,
        operation: str,
        reduction: str | None,
        ranks: str | None,
        source: str | None,
        phase: str | None,
        layer: int | None,
        gradient: bool,
        before: tuple[int, int, int, float, float, float] | None,
        after: tuple[int, int, int, float, float, float] | None,
        value_before: float | None,
        value_after: float | None,
        kept: float | None,
    ) -> None: ...
    def logprobs(
        self, step: int, tokens: int, not_finite: int, k3: float, beyond: float
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

def rank_figures(tensor: Any, first: int) -> tuple[int, int, int, float, float, float] | None: ...
def logprob_mismatch(
    tensor: Any, rows: int, length: int, given: int
) -> tuple[str, list[str]] | None: ...
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

class DeviceKernels:
    """The kernels "flags", "figures", "compare" and "change" of numerics/device, on CUDA.

    `folders`: where wheels are installed, beside whose libraries NVRTC lies. `cache`: a folder of
    this user alone that keeps compiled kernels. `driver`: for tests. RuntimeError: why they cannot
    be used here.
    """

    def __init__(
        self, folders: list[str], cache: str = "", driver: str = "libcuda.so.1"
    ) -> None: ...
    def compile(self, kernel: str, architecture: int) -> None:
        """What launch() would compile at its first call; takes a second or so and needs no device.
        `architecture`: 90 is sm_90.
        """

    def launch(
        self,
        kernel: str,
        rows: list[tuple[int, ...]],
        slots: int,
        slot_count: int,
        scratch: int,
        scratch_bytes: int,
        stream: int,
    ) -> int:
        """Launches on the current device and waits for nothing; returns how many tables it took (64
        rows each). A row: (elements, slot, options, address, dtype, address, dtype, …), of
        contiguous memory, dtypes as DEVICE_DTYPES numbers them; options: 0, DEVICE_RESTARTS or
        DEVICE_GATED, of `figures`: the second address is that of an int64, and while that is 0 the
        row leaves at once.
        `slots`, `scratch`: addresses of device memory. ValueError: a row that cannot be read.
        RuntimeError: what the driver or NVRTC refused.
        """

    def launch_gathered(
        self,
        kernel: str,
        gathered: Gathered,
        chunk: int,
        first: int,
        slots: int,
        slot_count: int,
        scratch: int,
        scratch_bytes: int,
        stream: int,
        made_there: bool,
    ) -> int:
        """As launch(), of the tensors that wait in `gathered` and were made on `stream`, or (not
        `made_there`) on one that nobody knows; their slots are those from `first` of the memory
        that is numbered `chunk`.
        """

class Gathered:
    """The tensors and the calls of one step on a device (bindings/gathered_tensors.h).

    `device_of`: a tensor of the device on which kernels can be launched, None if on none. What is
    wanted of a tensor: 0 its extremes, 1 its largest magnitude, 2 its norm, 3 all figures.
    """

    def __init__(self, recorder: Recorder, device_of: Any, sampled: bool) -> None: ...
    def note(self, layer: int, leaf: bool, inputs: Any, output: Any) -> bool: ...
    def add(self, tensor: Any, wanted: int, layer: int) -> int: ...
    def add_all(self, tensors: list[Any], wanted: int) -> list[int]: ...
    def ask_at_once(self, layers: list[int]) -> None: ...
    def is_full(self) -> bool: ...
    def calls(self) -> int: ...
    def close(self) -> list[tuple[int, int, bool, Any]]: ...
    def replace(self, number: int, copy: Any) -> bool: ...
    def waiting(self, kernel: str) -> list[tuple[int | None, int, int]]: ...
    def release(self) -> list[int]: ...
    def read(self, kernel: str, chunk: int, address: int, size: int) -> None: ...
    def set(self, number: int, reading: Reading) -> None: ...
    def reading(self, number: int) -> Reading | None: ...
    def value(self, number: int) -> float | None: ...
    def report(self, first: int, last: int, own_of: Callable[[int], list[Any]]) -> None: ...

DEVICE_SLOT_BYTES: dict[str, int]
DEVICE_DTYPES: dict[str, int]
DEVICE_RESTARTS: int
DEVICE_GATED: int

def device_scratch_bytes(kernel: str, rows: list[tuple[int, ...]]) -> int: ...
def device_slots(kernel: str, data: bytes) -> list[tuple[Any, ...]]:
    """flags: (numel, nan, posinf, neginf, least, greatest, squares). figures: (numel, [the figures
    that whole() takes], [256 counts of exponents]). compare, change: as compare() and
    compare_change().
    """

def grid(tensor: Any) -> tuple[str, bool, bool, int, int, int, float, float] | None:
    """Whether all finite values of an FP32 or FP64 tensor of the CPU are numbers of FP16, of BF16:
    (grid, on_fp16, on_bf16, numel, finite, zeros, absmin, absmax). grid: "none", "trivial" (one has
    them all, which says nothing), "bf16", "fp16", or "unknown" of other types, which are on none.
    """

def format_errors(tensor: Any) -> tuple[Any, ...] | None: ...
def format_loss(tensor: Any, format: str, scale: int) -> tuple[Any, ...] | None: ...
def dimension_losses(tensor: Any, format: str) -> list[tuple[Any, ...]] | None: ...

Figures = tuple[Any, ...]

THRESHOLDS: dict[str, float]
ELEMENTS: list[str]

class LostChanges:
    def __init__(self) -> None: ...
    def is_kept(self, name: str) -> bool: ...
    def rounds_weights(
        self,
    ) -> tuple[str, str, str, str, int, str | None, str, float] | None: ...

class Judge:
    def __init__(
        self, lost: LostChanges, step: int, first_loss: float | None, keeps_tape: bool
    ) -> None: ...
    @property
    def compared(self) -> int: ...
    @property
    def loss_size(self) -> float | None: ...
    @property
    def is_small_loss(self) -> bool: ...
    def compare(self, held: Any, reference: Any) -> int: ...
    def reserve(self) -> int: ...
    def put(self, slot: int, *figures: float) -> None: ...
    def figures(self, slot: int) -> Figures | None: ...
    def place(
        self, operator: str, forward: str, phase: str, file: str, line: int, module: str | None
    ) -> int: ...
    def enters(self, memory: int, error: float) -> None: ...
    def call(
        self,
        number: int,
        place: int,
        kept: bool,
        inputs: list[tuple[int, int, int, int, int, bool]],
    ) -> tuple[list[float], list[tuple[int, int]]] | None: ...
    def result(
        self,
        evidence: Any,
        call: int,
        index: int,
        memory: int,
        type: int,
        shape: tuple[int, ...],
        position: int,
        slot: int,
        rounding: float,
        written: bool,
        state: str,
    ) -> bool: ...
    def indices(
        self,
        evidence: Any,
        call: int,
        index: int,
        type: int,
        shape: tuple[int, ...],
        share: float,
    ) -> None: ...
    def mask(self, call: int, mask: int, share: float) -> bool: ...
    def decided(self, mask: int, source: str) -> None: ...
    def read(self, memory: int, source: str) -> None: ...
    def leaves(self, memory: int, place: int, type: int, offset: int) -> int: ...
    def formats(self, layer: int, reference: Any) -> None: ...
    def fed(self, call: int, input: int) -> None: ...
    def loss(self, memory: int, slot: int, size: float, alone: bool) -> None: ...
    def output(self, memory: int, name: str, slot: int) -> None: ...
    def gradient_again(self, name: str, memory: int) -> None: ...
    def optimizer(self, skipped_at: float | None, alone: bool) -> None: ...
    def gradient(self, name: str, memory: int, slot: int) -> None: ...
    def optimizer_ends(self) -> None: ...
    def change(
        self,
        call: int,
        made: int,
        index: int,
        memory: int,
        type: int,
        shape: tuple[int, ...],
        name: str,
        slot: int,
        seen: int,
        in_parts: bool,
        *change: float,
    ) -> None: ...
    def together(self, name: str, *change: float) -> None: ...
    def lost_line(
        self,
        seen: int,
        name: str,
        excused: bool,
        magnitude: float,
        mean: float,
        held_sum: float,
    ) -> None: ...
    def kept_at_random(self, name: str) -> None: ...
    def state(self, name: str, memory: int, slot: int) -> None: ...
    def several_lines(self) -> list[str]: ...
    def lost(self) -> list[tuple[int, str]]: ...
    def known(self, memory: int) -> tuple[float, bool, float]: ...
    def source(
        self, memory: int, type: int
    ) -> tuple[tuple[int, str, float], tuple[Any, ...] | None, bool] | None: ...
    def worst(self, call: int) -> float: ...
    def found(self) -> tuple[int, int]: ...
    def magnitudes(self) -> list[tuple[int, float]]: ...
    def profiles(self) -> list[tuple[Any, ...]]: ...
    def finish(self) -> tuple[list[tuple[Any, ...]], list[int]]: ...
    def tape(self) -> bytes | None: ...
