"""dump_on_error: what a layer got, had and gave when it made a value that is not finite.

The copies are made in the layer's forward hook, where everything is alive, and written when the
step has ended with an ERROR that names the layer. As long as nothing breaks, all that is done is
to keep the model's inputs at hand while the model runs.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from .._core import nonfinite
from ..base.alerts import NewAlert
from ..base.console import Console
from ..base.safetensors import save, storable
from ..operators.origins import NAN, POSINF
from ..steps.context import RunContext
from ..steps.listeners import StepListener
from ..steps.step import OpenStep

MAX_FILES = 4  # of a run, each of another layer
MAX_BYTES = 256 << 20  # of a file
MAX_TENSOR_BYTES = 128 << 20
_PLAIN = (
    (torch.Tensor, nn.Parameter, nn.Buffer)
    if hasattr(nn, "Buffer")
    else (
        torch.Tensor,
        nn.Parameter,
    )
)


def _walk(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Whatever is in nested arguments, by dotted names."""
    if isinstance(value, (tuple, list)) and depth < 4:
        for at, each in enumerate(value):
            yield from _walk(f"{name}.{at}", each, depth + 1)
    elif isinstance(value, dict) and depth < 4:
        for key, each in value.items():
            yield from _walk(f"{name}.{key}", each, depth + 1)
    else:
        yield name, value


class _Copies:
    """Tensors on their way into a file, within its bounds."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.left_out: list[dict[str, Any]] = []
        self.others: dict[str, Any] = {}  # arguments that are no tensors
        self._left = MAX_BYTES

    def add(self, name: str, value: Any) -> None:
        for key, each in _walk(name, value):
            if isinstance(each, torch.Tensor):
                self._copy(key, each)
            elif each is None or isinstance(each, (bool, int, float)):
                self.others[key] = each if isinstance(each, (bool, int)) else repr(each)

    def _copy(self, name: str, tensor: torch.Tensor) -> None:
        why = None
        size = tensor.numel() * tensor.element_size()
        if not isinstance(tensor, _PLAIN) or tensor.layout is not torch.strided:
            why = f"a {type(tensor).__name__} has no plain memory"
        elif tensor.is_meta or not storable(tensor.dtype):
            why = f"{tensor.device.type} tensors of {tensor.dtype} are not stored"
        elif size > MAX_TENSOR_BYTES:
            why = f"larger than {MAX_TENSOR_BYTES >> 20} MB"
        elif size > self._left:
            why = f"the file holds {MAX_BYTES >> 20} MB"
        if why is None:
            try:
                plain = tensor.detach().resolve_conj().resolve_neg()
                copy = plain.to("cpu", copy=True).contiguous()
                if copy.numel() and copy.data_ptr() == 0:
                    why = "its memory is elsewhere"
            except Exception as error:
                why = f"{type(error).__name__} while it was copied"
        if why is None:
            self._left -= size
            self.tensors[name] = copy
        else:
            entry = {"name": name, "dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape)}
            self.left_out.append({**entry, "why": why})


def _random_states(copies: _Copies) -> dict[str, Any]:
    """Adds the generators' states; what is no tensor of them is returned."""
    copies.add("rng.torch", torch.get_rng_state())
    if torch.cuda.is_initialized():
        for index in range(torch.cuda.device_count()):
            copies.add(f"rng.cuda.{index}", torch.cuda.get_rng_state(index))
    version, words, gauss = random.getstate()
    copies.add("rng.python", torch.tensor(words, dtype=torch.int64))
    rest: dict[str, Any] = {"python": {"version": version, "gauss_next": gauss}}
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        state = numpy.random.get_state(legacy=False)
        inner = dict(state.get("state", {}))
        if "key" in inner:
            copies.add("rng.numpy", torch.tensor(inner.pop("key").tolist(), dtype=torch.int64))
        rest["numpy"] = {
            "bit_generator": state.get("bit_generator"),
            "has_gauss": state.get("has_gauss"),
            "gauss": state.get("gauss"),
            "pos": inner.get("pos"),
        }
    return rest


def _regime() -> dict[str, Any]:
    """How operators choose their types at this moment."""
    regime: dict[str, Any] = {
        "default_dtype": str(torch.get_default_dtype())[6:],
        "grad_enabled": torch.is_grad_enabled(),
        "tf32_matmul": torch.backends.cuda.matmul.allow_tf32,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            regime[f"autocast_{device}"] = str(torch.get_autocast_dtype(device))[6:]
    return regime


class Dump(StepListener):
    """Of one run. `database`: the run's file."""

    name = "dump_on_error"

    def __init__(self, run: RunContext, console: Console, database: str, folder: str) -> None:
        self._core = run.core
        self._state = run.state
        self._names = run.names
        self._record = run.record
        self._notes = run.notes
        self._console = console
        self._database = database
        self._folder = folder
        self._taken: dict[int, tuple[_Copies, dict[str, str]]] = {}  # this step's, by layer
        self._done: set[int] = set()  # layers
        self._batch: Any = None

    def model_runs(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        if self._state.on_device:
            self._notes.note(
                "dump_on_error: nothing is written of tensors on a device, whose figures come"
                " when they are gone"
            )
            return
        self._batch = (args, kwargs)

    def model_ran(self, output: Any, failed: bool) -> None:
        self._batch = None

    def module_broke(
        self, layer: int, module: nn.Module, args: Any, kwargs: Any, output: Any, first: bool
    ) -> None:
        """Copied where it may be its origin."""
        if layer in self._done or layer in self._taken:
            return
        if len(self._done) >= MAX_FILES or len(self._taken) >= MAX_FILES:
            return
        bad = NAN | POSINF
        if not nonfinite(output) & bad or nonfinite((args, kwargs)) & bad:
            return  # -inf alone is a mask; with bad inputs it only carries on
        regime = _regime()
        with torch.no_grad():
            self._taken[layer] = self._take(layer, module, args, kwargs, output, regime)

    def _take(
        self,
        layer: int,
        module: nn.Module,
        args: Any,
        kwargs: Any,
        output: Any,
        regime: dict[str, Any],
    ) -> tuple[_Copies, dict[str, str]]:
        copies = _Copies()
        copies.add("input", args)
        copies.add("input", kwargs)
        for name, parameter in module.named_parameters():
            copies.add(f"parameter.{name}", parameter)
        for name, buffer in module.named_buffers():
            copies.add(f"buffer.{name}", buffer)
        copies.add("output", output if isinstance(output, (tuple, list, dict)) else (output,))
        generators = _random_states(copies)
        if self._batch is not None:
            copies.add("batch", self._batch[0])
            copies.add("batch", self._batch[1])
        record = self._record
        # Written by json, so that a name cannot be taken for something else.
        metadata = {
            "format": "pt",
            "mpnanny": "dump 1",
            "run": str(self._core.run_id),
            "database": "" if record.minimal else os.path.abspath(self._database),
            "step": str(self._state.number),
            "layer": record.layer(self._names.name(layer) or "") or "(model)",
            "class": record.type(type(module)),
            "source": record.source(self._names.source(layer)),
            "training": json.dumps(module.training),
            "regime": json.dumps(regime),
            "generators": json.dumps(generators),
            "notes": "Taken after the layer's forward pass: what it changed in place is changed,"
            " and the generators have moved on by what it drew. Layouts are made contiguous.",
        }
        return copies, metadata

    def step_ended(self, step: OpenStep, alerts: list[NewAlert]) -> None:
        """Writes what was taken of the layers that an ERROR names as the origin."""
        taken, self._taken = self._taken, {}
        for alert in alerts if taken else ():
            layer = alert.layer
            if alert.severity != "ERROR" or not alert.producer or layer is None:
                continue
            if layer in self._done or layer not in taken:
                continue
            self._done.add(layer)
            try:
                path = self._write(*taken[layer], alert)
            except Exception as error:
                self._notes.trouble(self.name, error)
                continue
            first = next(each for each in alerts if each.layer == layer)
            first.message += f" Dumped to {path}."

    def _write(self, copies: _Copies, metadata: dict[str, str], alert: NewAlert) -> str:
        metadata["alert"], metadata["phase"] = alert.type, alert.phase
        metadata["arguments"] = json.dumps(copies.others)
        metadata["left_out"] = json.dumps(copies.left_out)
        path = self._path(metadata)
        size = save(path, copies.tensors, metadata)
        detail = {
            "path": os.path.basename(path) if self._record.minimal else path,
            "layer": metadata["layer"],
            "bytes": size,
            "left_out": len(copies.left_out),
        }
        self._core.event(self._state.number, "dump", json.dumps(detail))
        self._console.say(
            f"inputs, outputs and parameters of {metadata['layer']} at step"
            f" {metadata['step']} are in {path} ({size / 1e6:.1f} MB"
            + (f", {len(copies.left_out)} tensors left out)" if copies.left_out else ")")
        )
        return path

    def _path(self, metadata: dict[str, str]) -> str:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        layer = re.sub(r"[^\w.-]+", "_", metadata["layer"])[:80]
        stem = f"run{metadata['run']}-step{metadata['step']}-{layer}"
        path, number = os.path.join(self._folder, f"{stem}.safetensors"), 1
        while os.path.exists(path):
            number += 1
            path = os.path.join(self._folder, f"{stem}-{number}.safetensors")
        return path
