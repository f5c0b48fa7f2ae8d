"""The code of a plan, run by the libraries that it is for. Those that are not installed are
skipped; `./scripts/test --all` installs them into an environment of their own.
"""

from __future__ import annotations

import json
import os
import types

import models_of_users as users
import pytest
import torch
from mpnanny.precision import as_code, choose_precision
from mpnanny.precision.keep_fp32 import keep_fp32

WAYS = ("fp32", "tf32", "bf16-autocast", "fp16-autocast", "bf16-weights", "fp8-linear")


@pytest.fixture(scope="module")
def codes():
    """Text by library and way, of a plan with an island."""
    made = {}
    for way in WAYS:
        torch.manual_seed(1)
        answer = choose_precision(
            users.sensitive() if way != "fp8-linear" else users.healthy(),
            users.batches(0),
            device="h100",
            ways=[way],
            goal="safest",
        )
        chosen = answer["code"] if answer["way"] == way else []
        made |= {(each["library"], way): each["text"] for each in chosen}
    return made


def texts_of(codes, library):
    found = [text for (name, _), text in codes.items() if name == library]
    assert found, library
    return found


@pytest.fixture
def names(monkeypatch, tmp_path):
    """What a snippet finds around it."""
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("keep_fp32")
    module.keep_fp32 = keep_fp32
    monkeypatch.setitem(__import__("sys").modules, "keep_fp32", module)
    model = users.sensitive()
    return {"model": model, "module": types.SimpleNamespace(model=model), "loader": []}


def run(text, names):
    optimizer = torch.optim.AdamW(names["model"].parameters())
    space = {**names, "optimizer": optimizer, "criterion": torch.nn.MSELoss()}
    exec(compile(text, "plan", "exec"), space)
    return space


def test_pytorch(codes, names):
    precision = torch.get_float32_matmul_precision()
    for text in texts_of(codes, "pytorch"):
        run(text, names)
    torch.set_float32_matmul_precision(precision)


def test_accelerate(codes, names):
    pytest.importorskip("accelerate")
    from accelerate.state import AcceleratorState

    for text in texts_of(codes, "accelerate"):
        AcceleratorState._reset_state(True)
        if 'mixed_precision="fp16"' in text and not torch.cuda.is_available():
            continue  # accelerate refuses FP16 on a CPU
        made = run(text, names)["accelerator"]
        assert made.mixed_precision in text


def test_lightning(codes, names):
    pytest.importorskip("lightning")
    for text in texts_of(codes, "lightning"):
        trainer = run(text, names)["trainer"]
        assert trainer.precision in ("32-true", "bf16-mixed", "16-mixed")


def test_transformers(codes, names):
    pytest.importorskip("transformers")
    for text in texts_of(codes, "transformers"):
        if ("fp16=True" in text or "tf32=True" in text) and not torch.cuda.is_available():
            continue  # refused without a GPU
        text = text.replace('output_dir="out"', 'output_dir="out", use_cpu=True')
        arguments = run(text, names)["arguments"]
        assert arguments.bf16 == ("bf16=True" in text)


def test_deepspeed(codes, monkeypatch):
    pytest.importorskip("deepspeed")
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("CUDA_HOME", "/nowhere")
    from deepspeed.runtime.config import DeepSpeedConfig

    for text in texts_of(codes, "deepspeed"):
        settings = json.loads(text) | {"train_micro_batch_size_per_gpu": 1, "train_batch_size": 1}
        made = DeepSpeedConfig(settings)
        assert made.bfloat16_config.enabled == (settings.get("bf16") or {}).get("enabled", False)
        if "torch_autocast" in settings:
            assert made.torch_autocast_enabled
            assert str(made.torch_autocast_dtype) == f"torch.{settings['torch_autocast']['dtype']}"


def test_torchao(codes, names):
    pytest.importorskip("torchao")
    text = texts_of(codes, "torchao")[0]
    model = run(text, names)["model"]
    kinds = {name: type(each).__name__ for name, each in model.named_modules()}
    assert kinds["enter"] == "Float8Linear" or '"enter"' in text
    assert kinds["leave"] == "Linear"  # 10 columns are no multiple of 16


def test_every_library_has_a_test():
    tested = {"keep_fp32.py", "fsdp2", "transformer_engine"}  # in plan_test.py; not on PyPI's CPUs
    tested |= {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert set(as_code.LIBRARIES) <= tested
