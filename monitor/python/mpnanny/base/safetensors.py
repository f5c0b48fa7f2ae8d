"""Reads and writes safetensors files: eight bytes of header length, a JSON header, plain bytes.

Small and without the package of that name, which a training need not have.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import torch

MAX_HEADER = 100_000_000  # as the format's own readers allow

# Names that a torch has not are left out: older ones know no FP8.
_NAMES = {
    getattr(torch, name): code
    for name, code in {
        "bool": "BOOL",
        "uint8": "U8",
        "int8": "I8",
        "int16": "I16",
        "int32": "I32",
        "int64": "I64",
        "uint16": "U16",
        "uint32": "U32",
        "uint64": "U64",
        "float16": "F16",
        "bfloat16": "BF16",
        "float32": "F32",
        "float64": "F64",
        "complex64": "C64",
        "float8_e4m3fn": "F8_E4M3",
        "float8_e5m2": "F8_E5M2",
    }.items()
    if hasattr(torch, name)
}
_DTYPES = {code: dtype for dtype, code in _NAMES.items()}


def storable(dtype: torch.dtype) -> bool:
    return dtype in _NAMES


def _memory(tensor: torch.Tensor) -> Any:
    """The tensor's bytes without a copy; valid while it lives."""
    size = tensor.numel() * tensor.element_size()
    return (ctypes.c_char * size).from_address(tensor.data_ptr()) if size else b""


def save(
    path: str | os.PathLike[str], tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]
) -> int:
    """Writes contiguous tensors of the CPU; the file appears whole or not at all, for its owner
    alone. Returns its bytes. Raises OSError and ValueError.
    """
    if sys.byteorder != "little":
        raise ValueError("safetensors are little-endian, this machine is not")
    # The largest elements first: every tensor then begins at a multiple of its element's size.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name in order:
        tensor = tensors[name]
        if tensor.device.type != "cpu" or not tensor.is_contiguous():
            raise ValueError(f"{name} is not contiguous on the CPU")
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder = os.path.dirname(os.path.abspath(path))
    handle, partial = tempfile.mkstemp(dir=folder, prefix=".dump-")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(len(text).to_bytes(8, "little"))
            file.write(text)
            for name in order:
                file.write(_memory(tensors[name]))
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    return 8 + len(text) + end


def load(path: str | os.PathLike[str]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Tensors and metadata of a file. Raises OSError, and ValueError where it is none."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= MAX_HEADER:
            raise ValueError(f"{path}: no safetensors file")
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        dtype = _DTYPES.get(entry["dtype"])
        begin, end = entry["data_offsets"]
        if dtype is None or not 0 <= begin <= end <= len(data):
            raise ValueError(f"{path}: {name} is of an unknown type or beyond the end")
        part = (
            torch.frombuffer(data, dtype=torch.uint8, count=end - begin, offset=begin)
            if (end > begin)
            else torch.empty(0, dtype=torch.uint8)
        )
        tensors[name] = part.clone().view(dtype).reshape(entry["shape"])
    return tensors, metadata
