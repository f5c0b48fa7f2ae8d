"""Writes files of tensors with the libraries that people use, and what their elements are.

`python write_files.py FOLDER` writes the files and FOLDER/expected.json:
{file: [{"key", "dtype", "shape", "values"}]}, where `values` names a file of FP64 numbers in C
order; null means that the elements of this one are not read, only listed.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

NUMBERS = [
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16,
    torch.uint32, torch.uint64, torch.bool,
]  # fmt: skip
LISTED = [
    torch.complex64,
    torch.complex128,
    torch.complex32,
    torch.float8_e8m0fnu,
    torch.float8_e4m3fnuz,
]
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -2.5,
    6.1e-5,
    5.96e-8,
    1e-40,
    448.0,
    57344.0,
    65504.0,
    1e38,
    float("inf"),
    float("nan"),
]


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.expected: dict[str, list[dict[str, Any]]] = {}
        self.written = 0

    def expect(self, file: str, key: str, tensor: Any, read: bool = True) -> None:
        """`tensor`: of torch or numpy. Its values become FP64, which is what a reader must give."""
        values = None
        if isinstance(tensor, torch.Tensor):
            dtype = str(tensor.dtype).removeprefix("torch.")
            if read:
                values = tensor.detach().to(torch.float64).contiguous().numpy()
        else:
            dtype = tensor.dtype.name
            values = tensor.astype(np.float64) if read else None
        entry: dict[str, Any] = {
            "key": key,
            "dtype": dtype,
            "shape": list(tensor.shape),
            "values": None,
        }
        if values is not None:
            entry["values"] = f"values{self.written}.f64"
            self.written += 1
            (self.path / entry["values"]).write_bytes(np.ascontiguousarray(values, "<f8").tobytes())
        self.expected.setdefault(file, []).append(entry)


def sample(dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.tensor([True, False, True, True, False, False])
    if dtype.is_complex:
        return torch.randn(2, 3, dtype=torch.complex64).to(dtype)
    if dtype.is_floating_point:
        values = torch.tensor(
            SPECIAL + torch.randn(7, generator=torch.Generator().manual_seed(1)).tolist()
        )
        if dtype == torch.float8_e8m0fnu:
            values = values.abs().clamp(1e-30, 1e30).nan_to_num(1.0)
        return values.to(dtype)
    ends = torch.iinfo(dtype)
    return torch.tensor([[0, 1, ends.max], [ends.min, 7, ends.max - 1]], dtype=dtype)


def views() -> dict[str, torch.Tensor]:
    """Views of one storage, and shapes without an element or without a dimension."""
    whole = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5) / 7
    return {
        "whole": whole,
        "transposed": whole.permute(2, 0, 1),
        "column": whole[:, 1],
        "every_second": whole[::2, :, 1::2],
        "row_of_half": whole.half()[1],
        "expanded": torch.tensor([1.5, -2.0]).unsqueeze(1).expand(2, 6),
        "scalar": torch.tensor(3.25),
        "one_of_many": whole[2, 3, 4],
        "empty": torch.empty(0),
        "empty_of_three": torch.empty(3, 0, 2, dtype=torch.bfloat16),
    }


class Tagged(torch.Tensor):
    """A subclass, which is pickled by its own name."""


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6))
        self.head = torch.nn.Linear(6, 4)
        self.head.weight = torch.nn.Parameter(self.body[0].weight.detach().T.contiguous())
        self.tied = torch.nn.Linear(4, 6, bias=False)
        self.tied.weight = self.body[0].weight
        self.register_buffer("scale", torch.tensor(0.5), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return self.head(y) + self.tied(x)[:, :4] * self.scale


def torch_files(folder: Folder) -> None:
    every = {str(dtype).removeprefix("torch."): sample(dtype) for dtype in NUMBERS + LISTED}
    for name, options in {"zip": {}, "legacy": {"_use_new_zipfile_serialization": False}}.items():
        for part, tensors in {"dtypes": every, "views": views()}.items():
            file = f"{part}_{name}.pt"
            torch.save(tensors, folder.path / file, **options)
            for key, tensor in tensors.items():
                folder.expect(file, key, tensor, tensor.dtype not in LISTED)
    torch.save(every["float32"], folder.path / "one.pth")
    folder.expect("one.pth", "tensor", every["float32"])

    torch.manual_seed(2)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True)
    for _ in range(2):
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    state = model.state_dict()
    checkpoint = {
        "epoch": 3,
        "model": state,
        "optimizer": optimizer.state_dict(),
        "nested": [
            {"a": (torch.ones(2), [torch.zeros(1)])},
            collections.OrderedDict(b=torch.full((3,), 2.0)),
        ],
        "parameter": torch.nn.Parameter(torch.ones(2, 2)),
        "size": torch.Size([1, 2]),
        "text": "no tensor",
    }
    torch.save(checkpoint, folder.path / "checkpoint.pt")
    for key, tensor in state.items():
        folder.expect("checkpoint.pt", f"model.{key}", tensor)
    for number, slots in optimizer.state_dict()["state"].items():
        for slot, tensor in slots.items():
            folder.expect("checkpoint.pt", f"optimizer.state.{number}.{slot}", tensor)
    folder.expect("checkpoint.pt", "nested.0.a.0", torch.ones(2))
    folder.expect("checkpoint.pt", "nested.0.a.1.0", torch.zeros(1))
    folder.expect("checkpoint.pt", "nested.1.b", torch.full((3,), 2.0))
    folder.expect("checkpoint.pt", "parameter", torch.ones(2, 2))
    torch.save(model, folder.path / "whole_model.pt")
    for key, tensor in [*state.items(), ("scale", model.scale)]:
        folder.expect("whole_model.pt", key, tensor)

    with_attribute = torch.full((2,), 3.0)
    with_attribute.note = "kept"  # type: ignore[attr-defined]
    for protocol in range(2, 6):
        file = f"protocol{protocol}.pt"
        tensors = {"a": torch.ones(2, 3).T, "b": with_attribute, "c": Tagged(torch.zeros(4))}
        torch.save(tensors, folder.path / file, pickle_protocol=protocol)
        for key, tensor in tensors.items():
            folder.expect(file, key, tensor.detach().as_subclass(torch.Tensor))
    torch.save(optimizer, folder.path / "optimizer.pt")
    slots = list(optimizer.state.values())
    folder.expect("optimizer.pt", "state.#0.exp_avg", slots[0]["exp_avg"])
    folder.expect("optimizer.pt", "state.#1.exp_avg_sq", slots[1]["exp_avg_sq"])

    sparse = torch.eye(3).to_sparse()
    others = {
        "meta": torch.empty(2, 3, device="meta"),
        "quantized": torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8),
        "sparse": sparse,
    }
    torch.save(others, folder.path / "others.pt")
    folder.expect("others.pt", "meta", torch.empty(2, 3), read=False)
    folder.expected["others.pt"].append(
        {"key": "quantized", "dtype": "qint8", "shape": [4], "values": None}
    )
    folder.expect("others.pt", "sparse.1.0", sparse._indices())
    folder.expect("others.pt", "sparse.1.1", sparse._values())

    model.eval()
    script = torch.jit.trace(model, torch.randn(2, 4))
    script.save(str(folder.path / "script.pt"))
    for key, tensor in script.state_dict().items():
        folder.expect("script.pt", key, tensor)
    exported = torch.export.export(model, (torch.randn(2, 4),))
    torch.export.save(exported, folder.path / "exported.pt2")
    for key, tensor in state.items():
        folder.expect("exported.pt2", key, tensor)
    folder.expect("exported.pt2", "scale", model.scale)

    names = list(state)
    halves = {"pytorch_model-1.bin": names[::2], "pytorch_model-2.bin": names[1::2]}
    for file, keys in halves.items():
        torch.save({key: state[key] for key in keys}, folder.path / file)
    index = {
        "metadata": {},
        "weight_map": {key: file for file, keys in halves.items() for key in keys},
    }
    (folder.path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    for key, tensor in state.items():
        folder.expect("pytorch_model.bin.index.json", key, tensor)


def numpy_files(folder: Folder) -> None:
    rng = np.random.default_rng(3)
    arrays: dict[str, np.ndarray] = {}
    for code in ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]:
        for order in "<>":
            if code[1] == "1" and order == ">":
                continue
            name = f"{code}_{'little' if order == '<' else 'big'}"
            if code[0] == "f":
                arrays[name] = (
                    np.array(SPECIAL[:10] + [np.inf, np.nan]).astype(order + code).reshape(3, 4)
                )
            else:
                ends = np.iinfo(code)
                rows = [[0, 1, ends.max], [ends.min, 7, ends.max - 1]]
                arrays[name] = np.array(rows, code).astype(order + code)
    arrays["bool"] = np.array([True, False, True])
    arrays["fortran"] = np.asfortranarray(rng.standard_normal((3, 4, 5)))
    arrays["fortran_big"] = np.asfortranarray(rng.standard_normal((4, 3)).astype(">f4"))
    arrays["scalar"] = np.array(2.5, np.float32)
    arrays["empty"] = np.empty((0, 4), np.float16)
    arrays["empty_fortran"] = np.asfortranarray(np.empty((3, 0, 2), np.float32))
    arrays["complex"] = np.array([1 + 2j], np.complex64)
    for name, array in arrays.items():
        np.save(folder.path / f"{name}.npy", array)
        folder.expect(f"{name}.npy", "array", array, array.dtype.kind != "c")
    large = rng.standard_normal(20_000).astype(np.float32)
    np.savez(folder.path / "stored.npz", large=large, **arrays)
    np.savez_compressed(folder.path / "compressed.npz", large=large, **arrays)
    for file in ["stored.npz", "compressed.npz"]:
        for name, array in {"large": large, **arrays}.items():
            folder.expect(file, name, array, array.dtype.kind != "c")


def safetensors_files(folder: Folder) -> None:
    from safetensors.torch import save_file

    names = {torch.complex64, torch.float8_e8m0fnu, torch.float8_e4m3fnuz}
    every = {f"{dtype}": sample(dtype) for dtype in [*NUMBERS, *names]}
    every |= {
        "scalar": torch.tensor(3.25),
        "empty": torch.empty(0),
        "empty_of_three": torch.empty(3, 0, 2),
    }
    save_file(every, folder.path / "dtypes.safetensors", metadata={"format": "pt"})
    for key, tensor in every.items():
        folder.expect("dtypes.safetensors", key, tensor, tensor.dtype not in LISTED)
    shards = {
        "model-1.safetensors": {"a": torch.randn(5)},
        "model-2.safetensors": {"b": torch.randn(2, 3).bfloat16()},
    }
    for file, tensors in shards.items():
        save_file(tensors, folder.path / file)
    index = {
        "metadata": {"total_size": 32},
        "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"},
    }
    (folder.path / "model.safetensors.index.json").write_text(json.dumps(index))
    for tensors in shards.values():
        for key, tensor in tensors.items():
            folder.expect("model.safetensors.index.json", key, tensor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = Folder(parser.parse_args().folder)
    torch_files(folder)
    numpy_files(folder)
    if importlib.util.find_spec("safetensors") is not None:
        safetensors_files(folder)
    else:
        print("safetensors is not installed: its files are left out", file=sys.stderr)
    (folder.path / "expected.json").write_text(json.dumps(folder.expected))


if __name__ == "__main__":
    main()
