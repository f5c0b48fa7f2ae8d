"""The whole answer, and the code that it gives: run, and held against what was measured."""

from __future__ import annotations

import copy
import json
import pathlib
import subprocess
import sys

import models_of_users as users
import pytest
import torch
from mpnanny.precision import Problem, choose_precision
from mpnanny.precision.keep_fp32 import keep_fp32
from torch import nn

PROGRAM = pathlib.Path(__file__).parents[2] / "build" / "release" / "bin" / "mpnanny"


def seeded(make):
    torch.manual_seed(1)
    return make()


@pytest.fixture(scope="module")
def sensitive_plan():
    return choose_precision(
        seeded(users.sensitive),
        users.batches(0),
        device="h100",
        ways=["bf16-autocast"],
        try_steps=150,
        batches=users.batches,
    )


def texts(answer):
    return {each["library"]: each["text"] for each in answer["code"]}


def test_the_sensitive_module_is_the_island(sensitive_plan):
    assert sensitive_plan["verdict"] == "safe_with_islands"
    assert [each["module"] for each in sensitive_plan["islands"]] == ["norm"]
    island = sensitive_plan["islands"][0]
    assert island["kind"] == "RawNorm" and "models_of_users.py" in island["lines"][0]
    assert island["without_it"] > sensitive_plan["tolerance"]
    assert sensitive_plan["error_all_low"]["gradient"] > 5 * sensitive_plan["error"]["gradient"]


def test_its_training_holds_where_everything_low_does_not(sensitive_plan):
    trial = sensitive_plan["trial"]
    assert trial["verdict"] == "type_1"
    assert trial["all_low"]["verdict"] in ("type_2", "not_established")
    assert trial["all_low"]["difference"] > trial["difference"]
    assert trial["limits"] == []


def test_a_healthy_model_is_safe_as_it_is():
    answer = choose_precision(seeded(users.healthy), users.batches(0), device="h100")
    assert (answer["verdict"], answer["way"]) == ("safe", "bf16-autocast")
    assert answer["islands"] == [] and "trial" not in answer
    assert "keep_fp32" not in texts(answer)["pytorch"]
    assert {each["way"] for each in answer["alternatives"]} >= {"fp32", "tf32", "fp16-autocast"}
    assert "cpu_arithmetic" in answer["limits"] or torch.cuda.is_available()


def test_a_device_without_bf16_units_gets_fp16_with_a_scale():
    answer = choose_precision(seeded(users.healthy), users.batches(0), device="t4")
    assert answer["way"] == "fp16-autocast"
    assert answer["scaler"]["init_scale"] >= 1
    assert "bf16-autocast" in answer["not_on_device"] and "fp8-linear" in answer["not_on_device"]
    assert f"init_scale={answer['scaler']['init_scale']:.1f}" in texts(answer)["pytorch"]


def test_the_model_and_the_random_state_stay_as_they_were():
    model = seeded(users.sensitive)
    before = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    choose_precision(model, users.batches(0), device="h100", ways=["bf16-autocast"])
    assert torch.get_rng_state().equal(state)
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert all(each.grad is None for each in model.parameters())
    assert not model._forward_hooks and not model.norm._forward_pre_hooks


def error_in_bf16(model, islands):
    """Of the gradients, under this machine's own autocast on the CPU."""
    exact, held = copy.deepcopy(model), copy.deepcopy(model)
    keep_fp32(held, islands, torch.bfloat16, "cpu")
    batch = users.batches(0)
    exact(*batch).backward()
    with torch.autocast("cpu", torch.bfloat16):
        loss = held(*batch)
    loss.backward()
    gradients = [torch.cat([each.grad.flatten() for each in m.parameters()]) for m in (held, exact)]
    return float((gradients[0] - gradients[1]).norm() / gradients[1].norm())


def test_the_code_reaches_the_error_that_was_measured(sensitive_plan):
    model = seeded(users.sensitive)
    with_island = error_in_bf16(model, ["norm"])
    assert with_island == pytest.approx(sensitive_plan["error"]["gradient"], rel=0.5)
    assert error_in_bf16(model, []) > 5 * with_island


def test_an_island_around_others_leaves_them_low():
    seen = {}

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ModuleList([nn.Linear(4, 4)])

        def forward(self, x):
            seen["in"] = x.dtype
            y = self.inner[0](x)
            seen["out"] = y.dtype
            return y @ torch.ones(4, 4)

    model = nn.Sequential(nn.Linear(4, 4), Outer())
    inside = []
    model[1].inner[0].register_forward_hook(lambda m, i, o: inside.append(o))
    keep_fp32(model, ["1"], torch.bfloat16, "cpu")
    with torch.autocast("cpu", torch.bfloat16):
        assert model(torch.randn(2, 4)).dtype is torch.float32
    assert seen == {"in": torch.float32, "out": torch.float32}
    assert inside[0].bfloat16().float().equal(inside[0])  # computed in BF16
    assert model(torch.ones(2, 4)).dtype is torch.float32  # outside of autocast: as it was


def test_all_code_is_valid_and_all_settings_are_json(sensitive_plan):
    for way in ("fp32", "tf32", "bf16-autocast", "fp16-autocast", "bf16-weights", "fp8-linear"):
        answer = choose_precision(
            seeded(users.sensitive), users.batches(0), device="h100", ways=[way], goal="fastest"
        )
        for each in answer["code"]:
            if each["language"] == "json":
                json.loads(each["text"])
            else:
                compile(each["text"], each["library"], "exec")
    assert {"keep_fp32.py", "pytorch", "accelerate", "lightning"} <= set(texts(sensitive_plan))


def test_the_file_of_the_code_runs_by_itself(sensitive_plan, tmp_path):
    (tmp_path / "keep_fp32.py").write_text(texts(sensitive_plan)["keep_fp32.py"])
    program = (
        "import torch\nfrom keep_fp32 import keep_fp32\n"
        "m = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.GELU())\n"
        "keep_fp32(m, ['1'], torch.bfloat16, 'cpu')\n"
        "with torch.autocast('cpu', torch.bfloat16): print(m(torch.ones(1, 2)).dtype)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "torch.float32"


SEQUENCE = (torch.randn(2, 400, 16, generator=torch.Generator().manual_seed(0)),)


@pytest.mark.parametrize("way", ["bf16-autocast", "bf16-weights", "fp8-linear"])
def test_what_hands_positions_a_dtype_stays_in_fp32(way):
    answer = choose_precision(
        seeded(users.positions_of_the_dtype), SEQUENCE, device="h100", ways=[way], goal="smallest"
    )
    assert (answer["way"], answer["verdict"]) == (way, "safe_with_islands")
    # The unit that makes them, or the one around it that gives it 16-bit values.
    assert {each["module"] for each in answer["islands"]} <= {"attention", "attention.rotary"}
    whole = answer["islands"][0]["whole_numbers"]
    assert (whole["op"], whole["module"]) == ("aten.arange", "attention.rotary")
    assert whole["share"] > 0.1 and whole["grows"]["error"] > 0.04
    assert "whole_numbers" not in answer


def test_positions_that_every_format_holds_need_no_island():
    for make, way in (
        (users.positions_in_fp32, "bf16-autocast"),
        (users.positions_of_the_dtype, "fp16-autocast"),
    ):
        answer = choose_precision(seeded(make), SEQUENCE, device="h100", ways=[way])
        assert (answer["verdict"], answer["islands"]) == ("safe", [])
        assert "whole_numbers" not in answer


def test_positions_that_the_code_itself_rounds_are_said_and_mended_by_no_island():
    answer = choose_precision(
        seeded(users.positions_in_bf16), SEQUENCE, device="h100", ways=["bf16-autocast"]
    )
    assert answer["verdict"] == "safe" and answer["islands"] == []
    (whole,) = answer["whole_numbers"]
    assert whole["module"] == "attention.rotary" and whole["dtype"] == "bfloat16"


def tried(*ways):
    return choose_precision(
        seeded(users.stops_learning),
        users.batches(0),
        device="h100",
        ways=list(ways),
        try_steps=30,
        batches=users.batches,
    )


def test_a_plan_that_its_trial_refutes_gives_way_to_the_next():
    answer = tried("bf16-autocast", "fp16-autocast")
    assert answer["refuted"] == ["bf16-autocast"]
    assert answer["way"] == "fp16-autocast" and answer["trial"]["verdict"] == "type_1"
    assert "torch.float16" in texts(answer)["pytorch"]
    refuted = next(each for each in answer["alternatives"] if each["way"] == "bf16-autocast")
    assert refuted["established"] is False and refuted["good_for"] == []
    assert (refuted["trial"]["verdict"], refuted["trial"]["reason"]) == ("type_2", "not_finite")


def test_where_every_plan_is_refuted_fp32_is_left():
    answer = tried("bf16-autocast")
    assert (answer["way"], answer["verdict"]) == ("fp32", "stay_fp32")
    assert "autocast" not in texts(answer)["pytorch"]


def test_what_cannot_be_tried_is_said():
    with pytest.raises(Problem, match="no module"):
        choose_precision(lambda x: x, (torch.ones(2),), device="h100")
    with pytest.raises(Problem, match="does not run"):
        choose_precision(users.stops(), (torch.ones(2, 4),), device="h100")
    with pytest.raises(Problem, match="no way to train"):
        choose_precision(users.healthy(), users.batches(0), ways=["int4"])
    with pytest.raises(Problem, match="torch.optim has no"):
        choose_precision(users.healthy(), users.batches(0), device="h100", optimizer="adagrad2")


@pytest.mark.parametrize("way", ["bf16-autocast", "fp16-autocast", "bf16-weights", "fp8-linear"])
def test_the_static_check_has_nothing_to_say_of_the_code(way, tmp_path):
    answer = choose_precision(
        seeded(users.sensitive), users.batches(0), device="h100", ways=[way], goal="fastest"
    )
    for each in answer["code"]:
        if each["language"] == "python":
            (tmp_path / f"{each['library'].removesuffix('.py')}.py").write_text(each["text"])
    done = subprocess.run(
        [PROGRAM, "check", tmp_path, "--min-severity", "warning", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    assert report["files_scanned"] >= 2 and report["findings"] == [] and report["notes"] == []
