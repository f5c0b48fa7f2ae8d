"""The tool "choose_precision" from outside: `mpnanny precision`."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import models_of_users
import mpnanny
import torch

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE.parent.parent / "build" / "release" / "bin" / "mpnanny"


def precision(*words, timeout=120):
    """Exit code, stdout, stderr."""
    done = subprocess.run(
        [PROGRAM, "precision", *words, "--python", sys.executable],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def users(name):
    return ("--model", f"{HERE / 'models_of_users.py'}:{name}")


BATCHES = ("--batches", f"{HERE / 'models_of_users.py'}:batches")


def test_a_plan_with_an_island_is_shown_with_its_evidence_and_its_code():
    code, out, err = precision(*users("sensitive"), *BATCHES, "--device", "h100", "--try", "60")
    assert (code, err) == (0, "")
    assert out.startswith("models_of_users.py:sensitive on H100")
    assert "BF16 autocast, with 1 module in FP32" in out
    assert "FP32: norm (RawNorm): without it the error is" in out
    assert "Tried for 60 steps: acceptable: final loss " in out and "type 1" not in out
    assert 'keep_fp32(model, ["norm"], torch.bfloat16)' in out
    assert "Alternatives:" in out and "FP8 linear layers" in out


def test_a_refuted_plan_is_not_recommended():
    code, out, err = precision(
        *users("stops_learning"), *BATCHES, "--device", "h100", "--try", "30"
    )
    first = out.splitlines()[0]
    assert (code, err) == (0, "")
    assert "BF16 autocast was tried for 30 steps and fails (its loss is not finite): FP16" in first
    assert "BF16 autocast: refuted by its trial" in out
    assert "torch.bfloat16" not in out and "type 2" not in out
    code, out, _ = precision(
        *users("stops_learning"),
        *BATCHES,
        *("--device", "h100", "--try", "30"),
        *("--ways", "bf16-autocast"),
    )
    assert code == 1  # nothing but FP32 is left
    assert out.splitlines()[0].endswith("(its loss is not finite): stay in FP32.")
    assert "autocast(" not in out


def test_positions_that_the_format_changes_are_said_with_their_line():
    asked = ("--input", "float32[2,400,16]", "--device", "h100", "--ways", "bf16-autocast")
    _, out, _ = precision(*users("positions_of_the_dtype"), *asked)
    assert out.splitlines()[0].endswith("BF16 autocast, with 1 module in FP32 (goal: balanced).")
    assert "changes 18 % of the whole numbers (up to 399): bfloat16 holds every whole" in out
    line = "Where the whole numbers are made in FP32 by the code itself ("
    assert "models_of_users.py:" in out[out.index(line) :].splitlines()[0]
    _, out, _ = precision(*users("positions_in_bf16"), *asked)
    assert "In every format, by the code's own dtype: bfloat16 number range (arange) at" in out


def test_batches_without_a_step_are_taken():
    file = HERE / "models_of_users.py"
    code, out, err = precision(
        *users("healthy"),
        "--batches",
        f"{file}:next_batch",
        "--device",
        "h100",
        *("--try", "3", "--ways", "bf16-autocast"),
    )
    assert (code, err) == (0, "") and "Tried for 3 steps: not established: too few steps" in out


def test_json_has_the_same_and_the_library_that_is_asked_for():
    code, out, _ = precision(
        *users("healthy"),
        *("--input", "float32[32,32]~normal(0,1)", "--input", "int64[32]<10"),
        *("--device", "v100", "--library", "accelerate", "--format", "json"),
    )
    answer = json.loads(out)
    assert code == 0 and answer["way"] == "fp16-autocast" and answer["verdict"] == "safe"
    assert [each["library"] for each in answer["code"]] == ["accelerate"]
    assert answer["device"]["formats"]["bf16"] is False
    assert all(each.startswith(("not_confined:", "cpu_")) for each in answer["limits"])


def test_what_is_wrong_is_said_with_what_to_try():
    code, _, err = precision(*users("healthy"), *BATCHES, "--device", "gpu9000")
    assert code == 2 and "gpu9000" in err and "h100" in err
    code, _, err = precision(*users("not_a_model"), "--input", "float32[4]")
    assert code == 2 and "no module" in err
    code, _, err = precision(*users("stops"), "--input", "float32[4,4]")
    assert code == 2 and "does not run" in err
    code, _, err = precision()
    assert code == 2 and "model.py:build" in err


def test_a_server_without_permission_runs_nothing():
    done = subprocess.run(
        [PROGRAM, "call", "choose_precision", json.dumps({"model": "a.py:build"})],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "--allow-exec" in done.stdout + done.stderr or "a.py" in done.stdout + done.stderr


def test_a_recorded_run_names_the_lines_that_a_search_finds_as_well(tmp_path):
    torch.manual_seed(0)
    model = models_of_users.sensitive()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    database = tmp_path / "run.db"
    with mpnanny.MixedPrecisionNanny(
        model, optimizer=optimizer, db=str(database), shadow="every=5", quiet=True
    ) as nanny:
        for step in range(10):
            with nanny.step(step) as session:
                optimizer.zero_grad()
                with torch.autocast("cpu", torch.bfloat16):
                    loss = model(*models_of_users.batches(step))
                loss.backward()
                optimizer.step()
                session.log(loss=loss)
    done = subprocess.run(
        [PROGRAM, "precision", "--run", database, "--device", "a100", "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    assert answer["verdict"] == "safe_with_islands" and answer["trained_in"] == "bf16-autocast"
    assert {each["module"] for each in answer["islands"]} == {"norm"}
    worst = answer["islands"][0]
    assert worst["without_it"] > 10 * worst["with_it"]
    lines = {line.rpartition(":")[0].rpartition("/")[2] for line in worst["lines"]}
    assert lines == {"models_of_users.py"}
