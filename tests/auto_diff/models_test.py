"""auto_diff on healthy models: what it runs is what runs without it, bit for bit, and nothing is
said of them.
"""

from __future__ import annotations

import contextlib

import pytest
import torch
from families import FAMILIES
from mpnanny.diff import auto_diff
from mpnanny.diff.shadowed import measure
from mpnanny.programs.policy import Policy, full_precision
from mpnanny.programs.program import Options, Program
from mpnanny.programs.specification import make_inputs
from mpnanny.programs.target import Target


def made(name: str) -> torch.nn.Module:
    torch.manual_seed(3)
    return FAMILIES[name][0]()


def program_of(name: str) -> Program:
    return Program(
        Target(name, lambda: made(name), ""), make_inputs(FAMILIES[name][1], 1), Options()
    )


def bits(tensors: list[tuple[str, torch.Tensor]]) -> dict[str, bytes]:
    return {
        name: each.detach().to_dense().reshape(-1).view(torch.uint8).numpy().tobytes()
        for name, each in tensors
    }


def gradients(leaves: list[tuple[str, torch.Tensor]]) -> list[tuple[str, torch.Tensor]]:
    return [(name, each.grad) for name, each in leaves if each.grad is not None]


@pytest.mark.parametrize("name", FAMILIES)
def test_recording_in_fp32_changes_no_bit_of_forward_and_backward(name):
    program = program_of(name)
    model, inputs = made(name), [each.value for each in make_inputs(FAMILIES[name][1], 1)]
    for each in inputs:
        if each.is_floating_point():
            each.requires_grad_()
    torch.manual_seed(7)
    result = model(*inputs)
    outputs = [each for each in (result if isinstance(result, tuple) else (result,))]
    draw = torch.Generator().manual_seed(7)
    torch.autograd.backward(
        outputs,
        [
            (torch.randn(e.shape, generator=draw, dtype=torch.float64) / e.numel()).float()
            for e in outputs
        ],
    )
    plain = [(n, p) for n, p in model.named_parameters()]
    plain += [(f"input {at}", each) for at, each in enumerate(inputs)]

    with full_precision("cpu"):
        seen = measure(program, None, contextlib.nullcontext, 1.0)
    assert seen.raised is None and seen.attempt is not None
    assert bits(gradients(seen.attempt.leaves)) == bits(gradients(plain))
    assert [b for b in bits(seen.attempt.outputs).values()] == [
        b for b in bits([(str(at), each) for at, each in enumerate(outputs)]).values()
    ]
    assert seen.operators > 5 and seen.outputs[0].error < 1e-4


@pytest.mark.parametrize("policy", ["cuda-autocast", "cpu-autocast", "pure"])
@pytest.mark.parametrize("name", FAMILIES)
def test_recording_in_bf16_changes_no_bit_either(name, policy):
    program = program_of(name)
    chosen = Policy(policy, "bf16", "cpu")
    low = torch.bfloat16 if policy == "pure" else None
    with chosen.installed():
        plain = program.attempt(low)
        try:
            program.forward(plain, chosen.region)
            program.backward(plain, 1.0)
        except RuntimeError as error:
            with pytest.raises(type(error)):
                seen = measure(program, low, chosen.region, 1.0)
                raise seen.raised or AssertionError from error
            return
        seen = measure(program, low, chosen.region, 1.0)
    assert seen.raised is None and seen.attempt is not None
    assert bits(seen.attempt.outputs) == bits(plain.outputs)
    assert bits(gradients(seen.attempt.leaves)) == bits(gradients(plain.leaves))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_healthy_model_is_clean(name, dtype):
    inputs = tuple(each.value for each in make_inputs(FAMILIES[name][1], 1))
    answer = auto_diff(made(name), inputs, dtype)
    assert answer["verdict"] == "clean", answer.get("first_bad")
    assert answer["mode"] == "emulated"
    assert answer["output"][0]["error"] < 0.05


def test_a_model_made_of_library_modules_alone_is_followed():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    with torch.no_grad():
        model[0].weight.mul_(5e4)
        model[2].weight.mul_(1e-4)
    answer = auto_diff(model, torch.randn(32, 64), torch.float16)
    first = answer["first_bad"]
    assert (first["op"], first["module"], first["phase"]) == ("aten.addmm", "0", "forward")
    assert first["source"] == ""  # no line of it is the user's
    assert {each["module"] for each in answer["layers"]} >= {"0", "1", "2"}
