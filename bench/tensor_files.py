#!/usr/bin/env python3
"""The time to list large checkpoints, beside safetensors' and torch's own; see bench/README.md."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from torch._subclasses.fake_tensor import FakeTensorMode

LAYERS = 290
GIGABYTES = 10


def shapes() -> dict[str, tuple[int, ...]]:
    """Names and sizes like a language model's, together of about GIGABYTES in FP16."""
    width = int((GIGABYTES * 1e9 / 2 / LAYERS / 12) ** 0.5)
    return {
        f"model.layers.{i}.{name}": shape
        for i in range(LAYERS)
        for name, shape in {
            "attention.qkv.weight": (3 * width, width),
            "attention.out.weight": (width, width),
            "mlp.up.weight": (4 * width, width),
            "mlp.down.weight": (width, 4 * width),
            "norm.weight": (width,),
            "norm.bias": (width,),
        }.items()
    }


def write_safetensors(path: Path) -> None:
    """A header and a hole: no block of the data is on the disk."""
    header, end = {}, 0
    for key, shape in shapes().items():
        size = 2 * int(np.prod(shape))
        header[key] = {"dtype": "F16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def write_torch(path: Path) -> None:
    """A state dict without its elements."""
    with FakeTensorMode():
        state = {key: torch.empty(shape, dtype=torch.float16) for key, shape in shapes().items()}
    with torch.serialization.skip_data(materialize_fake_tensors=True):
        torch.save(state, path)


def write_npy(path: Path) -> None:
    with path.open("wb") as file:
        header = {"descr": "<f2", "fortran_order": False, "shape": (GIGABYTES * 500_000_000,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + GIGABYTES * 10**9)


def list_safetensors(path: Path) -> None:
    with safe_open(path, "pt") as file:
        for key in file.keys():  # noqa: SIM118
            file.get_slice(key).get_shape()


def median_ms(call: Callable[[Path], object], path: Path, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call(path)
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True, help="folder of the programs")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--folder", type=Path, help="where the files go (a temporary folder)")
    arguments = parser.parse_args()
    peers: dict[str, tuple[Callable[[Path], None], Callable[[Path], object], str]] = {
        "model.safetensors": (write_safetensors, list_safetensors, "safetensors.safe_open"),
        "model.pt": (
            write_torch,
            lambda path: torch.load(path, mmap=True, weights_only=True),
            "torch.load(mmap=True)",
        ),
        "array.npy": (write_npy, lambda path: np.load(path, mmap_mode="r"), "np.load(mmap_mode)"),
    }
    print("| file | bytes | tensors | mpnanny, ms | peer, ms | peer |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for name, (write, read, what) in peers.items():
            path = Path(folder) / name
            write(path)
            program = [arguments.bin / "bench-tensor-files", str(arguments.rounds), path]
            done = subprocess.run(program, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(done.stderr)
            ours = json.loads(done.stdout)
            theirs = median_ms(read, path, arguments.rounds)
            print(
                f"| {name} | {path.stat().st_size:,} | {ours['tensors']:,} "
                f"| {ours['list_ms']:.2f} | {theirs:.2f} | `{what}` |"
            )


if __name__ == "__main__":
    main()
