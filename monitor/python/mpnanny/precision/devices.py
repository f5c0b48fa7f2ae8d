"""What a device computes in hardware: a row of devices.json by name, or what torch says of this
machine. What is not known is None.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import Any

import torch

from ..programs.problem import Problem

_TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "devices.json")


@dataclass(frozen=True, slots=True)
class Device:
    """`peaks`: operations a second of dense matrix products with FP32 accumulation, by format: 0
    where the hardware has none, missing where that is not known. `memory` in bytes,
    `bandwidth` in bytes a second. `source`: where the figures stand; `read`: from this machine.
    """

    name: str
    title: str
    kind: str  # cuda | rocm | npu | tpu | hpu | mps | cpu
    capability: str = ""
    peaks: dict[str, float] = field(default_factory=dict)
    memory: float | None = None
    bandwidth: float | None = None
    notes: tuple[str, ...] = ()
    source: str = ""
    read: bool = False

    def peak(self, name: str) -> float | None:
        """Blocks and 8-bit kinds count as fp8; a format without units of its own runs as FP32."""
        known = self.peaks.get("fp8" if name.startswith(("e4m3", "e5m2")) else name)
        return self.peaks.get("fp32") if known == 0 else known

    def has(self, name: str) -> bool | None:
        """Whether its matrix units take `name`; None: not known."""
        known = self.peaks.get(name)
        return None if known is None else known > 0


def _rows() -> dict[str, Any]:
    with open(_TABLE, encoding="utf-8") as file:
        rows: dict[str, Any] = json.load(file)["devices"]
    return rows


def _plain(words: str) -> str:
    return re.sub(r"[^a-z0-9]", "", words.lower())


def _device(name: str, row: dict[str, Any], **more: Any) -> Device:
    figures = {key: float(each) * 1e12 for key, each in row["tflops"].items() if each is not None}
    memory, bandwidth = row.get("memory_gb"), row.get("bandwidth_gbs")
    return Device(
        name=name,
        title=row["title"],
        kind=row["kind"],
        capability=row.get("capability", ""),
        peaks=figures,
        memory=None if memory is None else memory * 1e9,
        bandwidth=None if bandwidth is None else bandwidth * 1e9,
        notes=tuple(row.get("notes", ())),
        source=row["source"],
        **more,
    )


def known_devices() -> list[str]:
    """Names that `find_device` takes."""
    return sorted(_rows())


def find_device(words: str) -> Device:
    """A device of the table by its name or an alias (`a100-80gb`, "NVIDIA H100 80GB HBM3"). Raises
    Problem with the nearest names.
    """
    wanted = _plain(words)
    rows = _rows()
    found = _match(wanted, rows)
    if found is None:
        raise Problem(
            f"Nothing is known of the device '{words}'.",
            "Known are " + ", ".join(sorted(rows)) + "; without `device` it is this machine.",
        )
    return _device(found, rows[found])


def _match(wanted: str, rows: dict[str, Any]) -> str | None:
    names = {
        _plain(alias): name
        for name, row in rows.items()
        for alias in (name, *row.get("aliases", ()))
    }
    if wanted in names:
        return names[wanted]
    # "NVIDIA H100 80GB HBM3", as drivers say it: the longest name that it holds.
    held = [each for each in names if len(each) >= 2 and re.search(rf"(?<![0-9]){each}", wanted)]
    return names[max(held, key=len)] if held else None


def this_machine() -> Device:
    """Of the first accelerator that torch sees, or else of the CPU."""
    if torch.cuda.is_available():
        return _cuda()
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        return Device("mps", "Apple GPU (MPS)", "mps", notes=("no FP64, no FP8",), read=True)
    return _cpu()


def _cuda() -> Device:
    title = torch.cuda.get_device_name(0)
    is_rocm = bool(torch.version.hip)
    memory = float(torch.cuda.get_device_properties(0).total_memory)
    major, minor = torch.cuda.get_device_capability(0)
    rows = _rows()
    name = _match(_plain(title), rows)
    if name is not None:
        row = _device(name, rows[name])
        return Device(
            name,
            title,
            row.kind,
            row.capability,
            row.peaks,
            memory,
            row.bandwidth,
            row.notes,
            row.source,
            True,
        )
    if is_rocm:
        return Device("rocm", title, "rocm", memory=memory, read=True)
    # Not in the table: which formats the matrix units of its generation take is known from its
    # compute capability; how fast they are is not.
    lacks = {"bf16": 0.0, "tf32": 0.0} if major < 8 else {}
    if (major, minor) < (8, 9):
        lacks["fp8"] = 0.0
    if major < 7:
        lacks["fp16"] = 0.0
    return Device("cuda", title, "cuda", f"{major}.{minor}", lacks, memory, read=True)


def _cpu() -> Device:
    flags: set[str] = set()
    title = "this machine's CPU"
    memory = None
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in ("flags", "Features"):
                    flags |= set(value.split())
                elif key.strip() == "model name":
                    title = value.strip()
        memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (OSError, ValueError):
        pass
    parts = {
        "AMX-BF16": "amx_bf16",
        "AMX-FP16": "amx_fp16",
        "AVX512-BF16": "avx512_bf16",
        "AVX512-FP16": "avx512_fp16",
        "NEON BF16": "bf16",
        "NEON FP16": "asimdhp",
    }
    notes = tuple(name for name, flag in parts.items() if flag in flags)
    peaks = {"fp8": 0.0, "tf32": 0.0}
    if flags and not flags & {"amx_bf16", "avx512_bf16", "bf16"}:
        peaks["bf16"] = 0.0
    if flags and not flags & {"amx_fp16", "avx512_fp16", "asimdhp"}:
        peaks["fp16"] = 0.0
    return Device("cpu", title, "cpu", peaks=peaks, memory=memory, notes=notes, read=True)
