"""dump_on_error: what a broken layer leaves behind is read by others, and breaks again."""

from __future__ import annotations

import json
import math
import os
import pathlib
import stat

import pytest
import torch
from conftest import Mlp, batch, cross_entropy
from mpnanny import Alert, MixedPrecisionNanny
from mpnanny.base import safetensors
from mpnanny.report import dump
from torch import nn


class Overflowing(nn.Module):
    """From the third call on the second layer's output does not fit into FP16."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.wide, self.leave = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 3)
        self.calls = 0

    def forward(self, x: torch.Tensor, scale: float = 1.0, mask: torch.Tensor | None = None):
        self.calls += 1
        x = torch.relu(self.enter(x)) * (1e5 if self.calls > 2 else scale)
        x = x.clamp(max=6e4) + 1.0
        return self.leave(torch.tanh(self.wide(x)))


def train(model, db: str, folder, steps: int = 5, heard: list[Alert] | None = None, **options):
    torch.manual_seed(1)
    with torch.no_grad():
        model.wide.weight.fill_(3.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    nanny = MixedPrecisionNanny(
        model,
        optimizer,
        db=db,
        dump_on_error=folder,
        on_alert=heard.append if heard is not None else None,
        **options,
    )
    for step in range(steps):
        x, y = batch()
        with nanny.step(step):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = cross_entropy(model(x, mask=torch.ones(16, dtype=torch.bool)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    nanny.close()


def files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def test_the_layer_breaks_again_from_its_file(db, database, tmp_path, capfd):
    folder, heard = tmp_path / "dumps", []
    train(Overflowing(), db, folder, heard=heard)
    (path,) = files(folder)
    assert path.name == "run1-step2-wide.safetensors"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    tensors, metadata = safetensors.load(path)
    assert (metadata["step"], metadata["layer"], metadata["class"]) == ("2", "wide", "Linear")
    assert (metadata["alert"], metadata["phase"]) == ("INF", "forward")
    assert metadata["source"].startswith(f"{__file__}:") and metadata["left_out"] == "[]"
    regime = json.loads(metadata["regime"])
    assert regime["autocast_cpu"] == "float16" and regime["grad_enabled"]
    assert "autocast_cuda" not in regime

    layer = nn.Linear(16, 16)
    with torch.no_grad():
        layer.weight.copy_(tensors["parameter.weight"])
        layer.bias.copy_(tensors["parameter.bias"])
    with torch.autocast("cpu", dtype=getattr(torch, regime["autocast_cpu"])):
        output = layer(tensors["input.0"])
    assert output.dtype == torch.float16 and torch.isinf(output).any()
    assert torch.equal(output, tensors["output.0"])

    assert tensors["batch.0"].shape == (16, 8) and tensors["batch.mask"].dtype == torch.bool
    # All generators go on from where they were.
    torch.set_rng_state(tensors["rng.torch"])
    assert len(tensors["rng.python"]) == 625 and len(tensors["rng.numpy"]) == 624
    assert json.loads(metadata["generators"])["numpy"]["bit_generator"] == "MT19937"

    (event,) = database().rows("SELECT * FROM event WHERE type = 'dump'")
    detail = json.loads(event["detail"])
    assert detail["path"] == str(path) and event["step"] == 2
    assert detail["bytes"] == path.stat().st_size
    told = [alert for alert in heard if str(path) in alert.message]
    assert [(alert.layer, alert.producer) for alert in told] == [("wide", True)]
    assert f"at step 2 are in {path}" in capfd.readouterr().err


def test_the_package_of_that_name_reads_it(db, tmp_path):
    peer = pytest.importorskip("safetensors")
    from safetensors.torch import load_file

    folder = tmp_path / "dumps"
    train(Overflowing(), db, folder, quiet=True)
    (path,) = files(folder)
    mine, metadata = safetensors.load(path)
    theirs = load_file(path)
    assert set(mine) == set(theirs)
    assert all(torch.equal(mine[name], theirs[name]) or name == "x" for name in mine)
    with peer.safe_open(path, framework="pt") as file:
        assert file.metadata() == metadata


def every_dtype() -> dict[str, torch.Tensor]:
    values = torch.tensor([[0.5, -2.0, math.inf], [math.nan, 1.0, 3.0]])
    return {
        "f32": values,
        "f64": values.double(),
        "f16": values.half(),
        "bf16": values.bfloat16(),
        "e4m3": values.to(torch.float8_e4m3fn),
        "e5m2": values.to(torch.float8_e5m2),
        "i64": torch.arange(5),
        "i32": torch.arange(5, dtype=torch.int32),
        "i16": torch.arange(5, dtype=torch.int16),
        "i8": torch.arange(5, dtype=torch.int8),
        "u8": torch.arange(5, dtype=torch.uint8),
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(7.0),
        "nothing": torch.empty(0, 3),
    }


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    def whole(t: torch.Tensor) -> bytes:
        return bytes(t.contiguous().reshape(-1).view(torch.uint8).tolist())

    return a.dtype == b.dtype and a.shape == b.shape and whole(a) == whole(b)


def test_every_type_comes_back_bit_by_bit(tmp_path):
    tensors = every_dtype()
    path = tmp_path / "x.safetensors"
    size = safetensors.save(path, tensors, {"über": 'ß " \\ 数'})
    assert size == path.stat().st_size
    back, metadata = safetensors.load(path)
    assert metadata == {"über": 'ß " \\ 数'}
    assert set(back) == set(tensors) and all(same(back[n], t) for n, t in tensors.items())
    try:
        from safetensors.torch import load_file
    except ImportError:
        return
    theirs = load_file(path)
    assert set(theirs) == set(tensors) and all(same(theirs[n], t) for n, t in tensors.items())


def test_a_file_that_cannot_be_finished_does_not_appear(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(ValueError):
        safetensors.save(path, {"x": torch.ones(3, 2).t()}, {})
    assert files(tmp_path) == []
    for broken in (b"", b"\0" * 8, b"\xff" * 8, b"\x02\0\0\0\0\0\0\0{}"[:-1]):
        path.write_bytes(broken)
        with pytest.raises(ValueError):
            safetensors.load(path)


def test_what_is_too_large_is_named(db, tmp_path, monkeypatch):
    monkeypatch.setattr(dump, "MAX_TENSOR_BYTES", 1000)
    monkeypatch.setattr(dump, "MAX_BYTES", 3000)
    folder = tmp_path / "dumps"
    train(Overflowing(), db, folder, quiet=True)
    (path,) = files(folder)
    tensors, metadata = safetensors.load(path)
    left = {entry["name"]: entry for entry in json.loads(metadata["left_out"])}
    weight = left["parameter.weight"]
    assert weight["shape"] == [16, 16] and "larger" in weight["why"] and "rng.torch" in left
    assert "parameter.bias" in tensors and path.stat().st_size < 3000 + 4000


class Several(nn.Module):
    """Layers that break one after the other."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.wide = nn.Linear(8, 8)
        self.parts = nn.ModuleList(Breaking(at) for at in range(count))

    def forward(self, x, mask=None):
        x = self.wide(x) * 1e-3
        for part in self.parts:
            x = torch.nan_to_num(part(x), 0.0, 0.0, 0.0)
        return x[:, :3]


class Breaking(nn.Module):
    def __init__(self, at: int) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.calls, self.at = 0, at

    def forward(self, x):
        self.calls += 1
        return torch.log(self.linear(x) * 0 - 1) if self.calls > self.at else self.linear(x)


def test_each_layer_once_and_few_of_them(db, tmp_path):
    folder = tmp_path / "dumps"
    train(Several(6), db, folder, steps=8, quiet=True)
    names = [path.name for path in files(folder)]
    assert names == [f"run1-step{at}-parts.{at}.safetensors" for at in range(dump.MAX_FILES)]


def test_healthy_masks_and_carriers_leave_nothing(db, tmp_path):
    class MakesMask(nn.Module):
        def forward(self, x):
            return torch.full((x.shape[0], 3), -math.inf).triu(1)[:, :3]

    class Model(Mlp):
        def __init__(self):
            super().__init__()
            self.mask = MakesMask()
            self.wide = nn.Linear(3, 3)

        def forward(self, x, mask=None):
            return self.wide((super().forward(x) + self.mask(x) * 0 + 1).nan_to_num(0.0))

    train(Model(), db, tmp_path / "dumps", quiet=True)
    assert files(tmp_path / "dumps") == []


def test_a_folder_that_cannot_be_written_stops_nobody(db, database, tmp_path):
    (tmp_path / "file").write_text("in the way")
    train(Overflowing(), db, tmp_path / "file" / "dumps", quiet=True)
    assert database().one("SELECT count(*) AS n FROM step")["n"] == 5
    (event,) = database().rows("SELECT detail FROM event WHERE type = 'hook_failed'")
    assert "dump_on_error" in event["detail"]


def test_names_stay_out_with_a_minimal_record(db, database, tmp_path):
    train(Overflowing(), db, tmp_path / "dumps", quiet=True, record="minimal")
    (path,) = files(tmp_path / "dumps")
    _, metadata = safetensors.load(path)
    text = json.dumps(metadata) + path.name
    assert "wide" not in text and "dump_test" not in text and str(tmp_path) not in text
    (event,) = database().rows("SELECT detail FROM event WHERE type = 'dump'")
    assert str(tmp_path) not in event["detail"]


def test_the_option_is_a_folder(tmp_path):
    with pytest.raises(TypeError, match="dump_on_error"):
        MixedPrecisionNanny(nn.Linear(2, 2), db=str(tmp_path / "m.db"), dump_on_error=7)
    assert not os.path.exists(tmp_path / "m.db")


def test_on_a_device_it_says_that_it_does_not(db, database, tmp_path, lag):
    train(Overflowing(), db, tmp_path / "dumps", steps=8, quiet=True)
    notes = database().one("SELECT notes FROM run")["notes"] or ""
    assert ("dump_on_error: nothing is written" in notes) == bool(lag)
    assert len(files(tmp_path / "dumps")) == (0 if lag else 1)
