"""What the run's row tells of the machine."""

from __future__ import annotations

import json
import types

import pytest
import torch
from mpnanny.process import environment


def test_it_tells_versions_flags_and_the_processor():
    facts = json.loads(environment.describe())
    assert facts["torch"] == torch.__version__ and facts["cuda"] == torch.version.cuda
    assert facts["devices"][0]["type"] == "cpu" and facts["devices"][0]["bf16"] is True
    assert facts["tf32_matmul"] in (True, False) and facts["tf32_cudnn"] in (True, False)
    assert facts["float32_matmul_precision"] == "highest"
    assert facts["bf16_reduced_precision_reduction"] in (True, False)
    assert "arguments" not in facts
    assert len(json.dumps(facts)) < 2000  # what run_summary shows of it


def test_arguments_only_on_request(monkeypatch):
    monkeypatch.setattr("sys.argv", ["train.py", "--token", "secret"])
    assert "secret" not in environment.describe()
    facts = json.loads(environment.describe(arguments=True))
    assert facts["arguments"] == ["--token", "secret"]


@pytest.mark.parametrize(
    ("capability", "can"),
    [
        ((7, 0), {"fp16": True, "bf16": False, "tf32": False, "fp8": False}),
        ((8, 0), {"fp16": True, "bf16": True, "tf32": True, "fp8": False}),
        ((8, 9), {"fp16": True, "bf16": True, "tf32": True, "fp8": True}),
    ],
)
def test_what_a_gpu_can_do(capability, can, monkeypatch):
    major, minor = capability
    properties = types.SimpleNamespace(name="G", total_memory=1, major=major, minor=minor)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
    monkeypatch.setattr(torch.version, "hip", None)
    device = json.loads(environment.describe())["devices"][1]
    assert device["compute_capability"] == f"{major}.{minor}"
    assert {name: device[name] for name in can} == can


def test_a_gpu_is_not_initialised_to_be_described(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: 1 / 0)
    devices = json.loads(environment.describe())["devices"]
    assert devices[1] == {"type": "cuda", "count": 2, "initialised": False}


def test_a_flag_that_this_torch_refuses_to_tell_is_left_out(monkeypatch):
    def refuse() -> str:
        raise RuntimeError("mixed the old and the new names")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    assert json.loads(environment.describe())["float32_matmul_precision"] is None
