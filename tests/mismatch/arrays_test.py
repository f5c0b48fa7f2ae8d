"""`mpnanny mismatch` of files of log-probabilities."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from conftest import PROGRAM

Answer = dict[str, Any]
Asked = Callable[..., Answer]


def logprobs(seed: int = 0) -> Any:
    return -numpy.random.default_rng(seed).exponential(1.4, (16, 40))


def test_two_arrays(tmp_path: pathlib.Path, mismatch: Asked) -> None:
    a = logprobs()
    numpy.savez(tmp_path / "a.npz", logprobs=a, mask=numpy.ones(a.shape))
    numpy.savez(tmp_path / "b.npz", logprobs=a + 1e-7)
    answer = mismatch(tmp_path / "a.npz", tmp_path / "b.npz", code=0)
    assert answer["verdict"] == "agree"
    assert answer["first"]["tokens"] == 640
    assert answer["first"]["rms"] == pytest.approx(1e-7, rel=1e-3)


def test_one_file_with_both_and_its_documents(tmp_path: pathlib.Path, mismatch: Asked) -> None:
    a = logprobs()
    documents = numpy.tile(numpy.arange(40) // 10, (16, 1))
    b = numpy.where(documents > 0, numpy.minimum(a + 0.4 * numpy.sin(77 * a), 0), a)
    torch.save(
        {
            "old_log_probs": torch.tensor(a),
            "rollout_log_probs": torch.tensor(b),
            "response_mask": torch.ones(16, 40, dtype=torch.bool),
            "segment_ids": torch.tensor(documents),
        },
        tmp_path / "both.pt",
    )
    answer = mismatch(tmp_path / "both.pt", code=1)
    assert answer["shape"] == "documents"


def test_the_tool_answers_as_the_command_does(tmp_path: pathlib.Path, mismatch: Asked) -> None:
    numpy.save(tmp_path / "a.npy", logprobs())
    call = {"a": str(tmp_path / "a.npy"), "b": str(tmp_path / "a.npy")}
    done = subprocess.run(
        [PROGRAM, "call", "compare_logprobs", "--args", json.dumps(call), "--root", tmp_path],
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == mismatch(tmp_path / "a.npy", tmp_path / "a.npy")


def test_steps_in_the_first_dimension(tmp_path: pathlib.Path, mismatch: Asked) -> None:
    a = numpy.stack([logprobs(seed) for seed in range(5)])
    size = numpy.array([0, 0.1, 0.2, 0.3, 0.4]).reshape(5, 1, 1)
    numpy.save(tmp_path / "a.npy", a)
    numpy.save(tmp_path / "b.npy", numpy.minimum(a + size * numpy.sin(77 * a), 0))
    answer = mismatch(tmp_path / "a.npy", tmp_path / "b.npy")
    assert answer["calls"] == 5
    assert answer["shape"] == "stale_weights"
    assert "mask" in answer["notes"][0]


def test_json_lines_of_several_lengths(tmp_path: pathlib.Path, mismatch: Asked) -> None:
    rows = [logprobs()[i, : 10 + 3 * i].tolist() for i in range(5)]
    for name in ("a", "b"):
        text = "".join(json.dumps({"logprobs": row, "id": 1}) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    answer = mismatch(tmp_path / "a.jsonl", tmp_path / "b.jsonl", code=0)
    assert answer["first"]["tokens"] == sum(map(len, rows))
    assert answer["first"]["rms"] == 0


def test_named_arrays_and_a_mask_of_its_own(tmp_path: pathlib.Path, mismatch: Asked) -> None:
    a = logprobs()
    numpy.savez(tmp_path / "x.npz", mine=a, theirs=a - 1, other=a)
    mask = numpy.zeros(a.shape)
    mask[:, 20:] = 1
    numpy.save(tmp_path / "m.npy", mask)
    answer = mismatch(
        f"{tmp_path}/x.npz#mine", f"{tmp_path}/x.npz#theirs", "--mask", tmp_path / "m.npy"
    )
    assert answer["first"]["tokens"] == 320
    assert answer["first"]["mean"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda f: numpy.savez(f / "a.npz", x=logprobs(), y=logprobs()), "the file has: x, y"),
        (lambda f: numpy.save(f / "a.npz", logprobs()), ""),
        (lambda f: (f / "a.npz").write_bytes(b"PK\x03\x04 cut"), ""),
        (lambda f: numpy.savez(f / "a.npz", logprobs=logprobs()[:3]), "[3, 40]"),
        (lambda f: numpy.savez(f / "a.npz", logprobs=logprobs().reshape(2, 2, 4, 40)), "4 dim"),
    ],
)
def test_what_cannot_be_compared_is_said(
    make: Callable[[pathlib.Path], Any], said: str, tmp_path: pathlib.Path, mismatch: Asked
) -> None:
    make(tmp_path)
    numpy.savez(tmp_path / "b.npz", logprobs=logprobs())
    answer = mismatch(tmp_path / "a.npz", tmp_path / "b.npz")
    assert said in answer["error"] if "error" in answer else said == ""


def test_broken_lines_name_their_line(tmp_path: pathlib.Path, mismatch: Asked) -> None:
    (tmp_path / "a.jsonl").write_text('{"logprobs": [-1]}\n{"logprobs": [-1\n')
    answer = mismatch(tmp_path / "a.jsonl", tmp_path / "a.jsonl", code=2)
    assert "line 2" in answer["error"]
    assert "mpnanny" not in mismatch(tmp_path / "none.npz", code=2)["error"].split("{")[0]
