"""log_mismatch in trainings whose engine differs in one thing, and in those where nothing is
wrong.
"""

from __future__ import annotations

import copy
import json
import pathlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import mpnanny
import pytest
import torch
from policy import Policy
from trainings import CASES, train

Answer = dict[str, Any]

# Case, steps, shapes that are right.
FAULTS = [
    ("head_bf16", 2, {"head"}),
    ("logprobs_bf16", 2, {"stored_in_16_bits"}),
    ("stale_4", 6, {"stale_weights"}),
    ("never_synced", 4, {"stale_weights"}),
    ("documents_by_positions", 2, {"documents"}),
    ("documents_bf16", 2, {"documents"}),
    ("temperature_07", 2, {"temperature"}),
    ("temperature_12", 2, {"temperature"}),
    ("top_p_09", 2, {"truncated"}),
    ("top_p_09_seen", 2, {"truncated"}),
    ("softcap", 2, {"head"}),
    ("answer_offset", 2, {"decoding"}),
    ("window", 2, {"position"}),
    ("experts", 2, {"routing"}),
    ("weights", 2, {"constant_offset"}),
    ("shifted", 2, {"shifted"}),
    ("rows", 2, {"sequences"}),
]
HEALTHY = [
    "healthy_fp32",
    "healthy_bf16",
    "healthy_fp16",
    "healthy_packed_bf16",
    "healthy_experts",
    "cache_fp16",
]


def recorded(case: str, steps: int, database: pathlib.Path) -> str:
    """Trains, and gives the run's handle."""
    runs: list[Any] = []

    def watch(policy: Policy) -> None:
        runs.append(mpnanny.MixedPrecisionNanny(policy, db=str(database), quiet=True, shadow="off"))

    train(replace(CASES[case]), steps, watch)
    handle = runs[0].run
    runs[0].close()
    return handle


SLOW = {"documents_bf16", "temperature_07", "top_p_09_seen", "never_synced", "healthy_fp16"}


@pytest.mark.parametrize(
    ("case", "severities"), [("weights", ["WARNING"]), ("healthy_bf16", []), ("cache_fp16", [])]
)
def test_what_is_far_apart_raises_one_alert(
    case: str, severities: list[str], tmp_path: pathlib.Path
) -> None:
    database = tmp_path / "m.db"
    recorded(case, 2, database)
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT type, severity, phase, value, threshold FROM alert")
        found = [row for row in rows if row[0] == "LOGPROB_MISMATCH"]
    assert [row[1] for row in found] == severities
    assert all(row[2] == "loss" and row[3] > row[4] for row in found)


def test_of_several_ranks_the_one_that_is_furthest_apart_is_shown(
    tmp_path: pathlib.Path, mismatch: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    for rank, case in enumerate(["healthy_bf16", "weights", "healthy_bf16"]):
        monkeypatch.setenv("RANK", str(rank))
        recorded(case, 2, tmp_path / "m.db")
    answer = mismatch(tmp_path, code=1)
    assert answer["verdict"] == "degraded"
    assert [each[:2] for each in answer["ranks"]] == [[1, 2], [0, 2], [2, 2]]
    assert answer["ranks"][0][2] > 5 * answer["ranks"][1][2]
    (note,) = [each for each in answer["notes"] if "rank 1 is shown" in each]
    assert "It alone differs" in note
    assert mismatch(tmp_path, "--rank", 2, code=0)["verdict"] == "agree"


def marked(case: str, *rest: Any) -> Any:
    return pytest.param(case, *rest, id=case, marks=[pytest.mark.slow] if case in SLOW else [])


@pytest.mark.parametrize(("case", "steps", "shapes"), [marked(*each) for each in FAULTS])
def test_a_fault_has_its_shape(
    case: str, steps: int, shapes: set[str], tmp_path: pathlib.Path, mismatch: Callable[..., Answer]
) -> None:
    answer = mismatch(recorded(case, steps, tmp_path / "m.db"), code=1)
    assert answer["shape"] in shapes, answer["measured"]
    assert answer["verdict"] in ("degraded", "broken")


@pytest.mark.parametrize("case", [marked(each) for each in HEALTHY])
def test_what_formats_must_differ_is_no_fault(
    case: str, tmp_path: pathlib.Path, mismatch: Callable[..., Answer]
) -> None:
    answer = mismatch(recorded(case, 3, tmp_path / "m.db"), code=0)
    assert answer["verdict"] == "agree", answer["measured"]


def test_the_numbers_of_a_fault_are_measured(
    tmp_path: pathlib.Path, mismatch: Callable[..., Answer]
) -> None:
    answer = mismatch(recorded("temperature_12", 2, tmp_path / "a.db"))
    assert "temperature of 1.2" in answer["measured"]
    answer = mismatch(recorded("window", 2, tmp_path / "b.db"))
    assert "24 on" in answer["measured"]
    answer = mismatch(recorded("head_bf16", 2, tmp_path / "c.db"))
    assert "head and logits in BF16" in answer["measured"]


def trained(watch: Callable[[Policy], None], monkeypatch: pytest.MonkeyPatch) -> bytes:
    kept: list[Policy] = []

    def keep(policy: Policy) -> None:
        kept.append(policy)
        watch(policy)

    case = replace(CASES["experts"], gives=("mask", "positions", "tokens", "experts", "hidden"))
    train(case, 3, keep)
    state = torch.cat([parameter.detach().reshape(-1) for parameter in kept[0].parameters()])
    return state.numpy().tobytes() + torch.get_rng_state().numpy().tobytes()


def test_no_bit_of_the_training_changes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []

    def watch(policy: Policy) -> None:
        runs.append(
            mpnanny.MixedPrecisionNanny(policy, db=str(tmp_path / "m.db"), quiet=True, shadow="off")
        )

    with_it = trained(watch, monkeypatch)
    runs[0].close()
    monkeypatch.setattr(mpnanny, "log_mismatch", lambda *_, **__: None)
    assert trained(lambda policy: None, monkeypatch) == with_it


Watch = Callable[[], Any]


@pytest.fixture
def watch(tmp_path: pathlib.Path) -> Iterator[Watch]:
    """A run that ends with the test."""
    runs: list[Any] = []

    def begin() -> Any:
        model = torch.nn.Linear(2, 2)
        runs.append(
            mpnanny.MixedPrecisionNanny(model, db=str(tmp_path / "m.db"), quiet=True, shadow="off")
        )
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def test_calls_before_a_run_wait_for_it(watch: Watch, mismatch: Callable[..., Answer]) -> None:
    a = -torch.rand(4, 20)
    mpnanny.log_mismatch(a, a, step=7)
    run = watch()
    mpnanny.log_mismatch(a, a, step=8)
    handle = run.run
    run.close()
    answer = mismatch(handle)
    assert answer["calls"] == 2
    assert answer["first"]["update"] == 7


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a: mpnanny.log_mismatch(a, a[:2]), "does not fit"),
        (lambda a: mpnanny.log_mismatch(a, a, mask=a[0]), "mask does not fit"),
        (lambda a: mpnanny.log_mismatch("x", a), "log_mismatch:"),
        (lambda a: mpnanny.log_mismatch(a, a, experts=(a.long(), a[:1].long())), "experts"),
        (
            lambda a: mpnanny.log_mismatch(a, a, tokens=a.long(), hidden=a[:3], head=a),
            "do not fit",
        ),
    ],
)
def test_what_does_not_fit_is_noted_and_not_raised(
    call: Callable[[torch.Tensor], None], said: str, watch: Watch
) -> None:
    run = watch()
    call(-torch.rand(4, 20))
    assert any(said in note for note in run.summary()["notes"])
    run.close()


def test_lists_of_several_lengths(watch: Watch, mismatch: Callable[..., Answer]) -> None:
    run = watch()
    rows = [-torch.rand(length) for length in (3, 9, 5)]
    mpnanny.log_mismatch(rows, [row.clone() for row in rows])
    handle = run.run
    run.close()
    assert mismatch(handle)["first"]["tokens"] == 17


def test_under_autocast_the_head_is_tried_in_fp32(watch: Watch, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    policy = Policy()
    hidden, tokens = torch.randn(4, 12, 64), torch.randint(96, (4, 12))
    exact = (hidden @ policy.head.weight.T).log_softmax(-1)
    chosen = exact.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).detach()
    run = watch()
    with torch.autocast("cpu", torch.bfloat16):
        mpnanny.log_mismatch(
            chosen, chosen, tokens=tokens, hidden=hidden, head=copy.deepcopy(policy.head.weight)
        )
    run.close()
    (detail,) = (
        sqlite3.connect(tmp_path / "m.db")
        .execute("SELECT detail FROM event WHERE type='logprob_head'")
        .fetchone()
    )
    ways = {name: rest for name, _, rest, _ in json.loads(detail)["tries"]}
    assert ways["fp32"] < 1e-4
    assert ways["head_and_logits_bf16"] > 1e-3


def test_a_run_without_calls_says_how_to_make_them(
    watch: Watch, mismatch: Callable[..., Answer]
) -> None:
    run = watch()
    handle = run.run
    run.close()
    answer = mismatch(handle, code=0)
    assert answer["verdict"] == "not_established"
    assert "log_mismatch" in answer["fix"]
