"""Writes small tensor files into FOLDER/<reader>/: first inputs of tensor_file_fuzzer.cc."""

from __future__ import annotations

import collections
import importlib.util
import io
import json
import struct
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def npz(compressed: bool, **arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(out, **arrays)
    return out.getvalue()


def safetensors(entries: dict[str, Any], data: bytes) -> bytes:
    header = json.dumps(entries, separators=(",", ":")).encode()
    return struct.pack("<Q", len(header)) + header + data


def plain() -> dict[str, list[bytes]]:
    arrays = [
        np.arange(6, dtype="<f4").reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=">f8").reshape(2, 3)),
        np.array([1, 2], "<i2"),
        np.empty((0, 3), "<f2"),
        np.array(True),
        np.array([1 + 2j]),
    ]
    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    two = {"dtype": "BF16", "shape": [1, 3], "data_offsets": [8, 14]}
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    payload = {
        "path_name": "weight_0",
        "is_param": True,
        "use_pickle": False,
        "tensor_meta": {
            "dtype": 7,
            "sizes": [{"as_int": 2}, {"as_int": 8}],
            "strides": [{"as_int": 8}, {"as_int": 1}],
            "storage_offset": {"as_int": 0},
            "layout": 7,
        },
    }
    return {
        "npy": [npy(array) for array in arrays],
        "npz": [
            npz(False, a=arrays[0], b=arrays[2]),
            npz(True, a=arrays[0]),
            npz(True, a=arrays[1], c=arrays[3]),
        ],
        "safetensors": [
            safetensors({"a": one}, bytes(8)),
            safetensors({"__metadata__": {"format": "pt"}, "a": one, "b": two}, bytes(14)),
            safetensors({}, b""),
        ],
        "inflate": [deflate.compress(npy(arrays[0])) + deflate.flush()],
        "exported": [json.dumps({"config": {"w": payload, "v": payload}}).encode()],
        "index": [
            json.dumps({"metadata": {}, "weight_map": {"a": "1.bin", "b": "2.bin"}}).encode()
        ],
    }


def of_torch() -> dict[str, list[bytes]]:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(2, 1)

    whole = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    objects: list[Any] = [
        whole,
        {"a": whole, "b": whole.T, "c": [whole[1], (whole[:, ::2],)]},
        collections.OrderedDict(w=torch.nn.Parameter(whole), n=3, f=0.5, s="text"),
        {"state": {0: {"step": torch.tensor(1.0), "exp_avg": whole.to(torch.float8_e4m3fn)}}},
        {"meta": torch.empty(2, device="meta"), "sparse": torch.eye(2).to_sparse()},
        Net().state_dict(),
    ]
    seeds: dict[str, list[bytes]] = {"torch": [], "legacy": [], "pickle": []}
    for each in objects:
        out = io.BytesIO()
        torch.save(each, out)
        seeds["torch"].append(out.getvalue())
        with zipfile.ZipFile(out) as archive:
            name = next(n for n in archive.namelist() if n.endswith("data.pkl"))
            seeds["pickle"].append(archive.read(name))
        out = io.BytesIO()
        torch.save(each, out, _use_new_zipfile_serialization=False)
        seeds["legacy"].append(out.getvalue())
    return seeds


def main() -> None:
    seeds = plain()
    if importlib.util.find_spec("torch") is not None:
        seeds |= of_torch()
    for reader, inputs in seeds.items():
        folder = Path(sys.argv[1]) / reader
        folder.mkdir(parents=True, exist_ok=True)
        for number, each in enumerate(inputs):
            (folder / str(number)).write_bytes(each)


if __name__ == "__main__":
    main()
