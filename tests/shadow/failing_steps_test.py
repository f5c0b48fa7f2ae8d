"""Steps that fail without a shadow, and memory that is short."""

from __future__ import annotations

import contextlib
import json
import subprocess
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from finds import Finds, inputs
from forked_python import forked_python
from mpnanny import MixedPrecisionNanny
from mpnanny.shadow import loss_backward
from mpnanny.shadow import session as shadow_session
from torch import nn

NEVER = "steps=900-901"


class Fragile(nn.Module):
    """With everything that running it a second time could spoil."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(()))
        self.seen = 0
        self.scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen += 1
        x = self.drop(self.norm(self.enter(x)))
        return (x.half() * self.scale) * 1000


def _fragile(watch: Callable[[nn.Module], Any]) -> dict[str, Any]:
    torch.manual_seed(0)
    model = Fragile()
    hooks: list[int] = []
    model.norm.register_forward_hook(lambda *_: hooks.append(1))
    descent = torch.optim.SGD(model.parameters(), lr=1e-3)
    left: dict[str, Any] = {}
    with watch(model):
        for step in range(4):
            descent.zero_grad()
            model.scale = 100.0 if step == 2 else 1.0
            output = model(inputs())
            left[f"random {step}"] = torch.get_rng_state().tolist()
            left[f"buffers {step}"] = [
                (name, each.tolist(), each._version, id(each) == id(model.get_buffer(name)))
                for name, each in model.named_buffers()
            ]
            left[f"versions {step}"] = [each._version for each in model.parameters()]
            left[f"calls {step}"] = (model.seen, len(hooks))
            (output.float().clamp(-1, 1) * 1e-3).nan_to_num().mean().backward()
            descent.step()
            left[f"weights {step}"] = [each.tolist() for each in model.parameters()]
    return left


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        weights = self.query(x) @ self.key(x).transpose(1, 2) + mask
        return weights.softmax(-1) @ self.value(x)


class Masked(nn.Module):
    """The mask is made outside of the module that breaks by it."""

    def __init__(self, low: float) -> None:
        super().__init__()
        self.low = low
        self.attention, self.head = Attention(), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        mask = torch.where(keep[:, None], torch.zeros((), dtype=x.dtype), self.low)  # mask
        return self.head(self.attention(x, mask))


@pytest.mark.parametrize(
    ("low", "line", "precision"),
    [
        (torch.finfo(torch.float32).min, "# mask", "proven"),
        (float("-inf"), "return weights.softmax(-1) @ self.value(x)", "excluded"),
    ],
)
def test_a_mask_that_was_rounded_to_inf_outside_of_the_module_that_broke(
    db, database, low, line, precision
):
    torch.manual_seed(0)
    model = Masked(low).bfloat16()
    descent = torch.optim.SGD(model.parameters(), lr=1e-3)
    with MixedPrecisionNanny(model, db=db, shadow=NEVER, quiet=True):
        for step in range(4):
            descent.zero_grad()
            keep = torch.ones(4, 6, dtype=torch.bool)
            keep[0] = step < 2
            model(torch.randn(4, 6, 8).bfloat16(), keep).float().nan_to_num().mean().backward()
            descent.step()
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
    found = Finds(database())
    assert [(each["step"], each["why"]) for each in found.steps][:1] == [(2, "rerun")]
    first = found.first()
    assert first["line"].endswith(line)
    assert (first["step"], first["severity"], first["precision"]) == (2, "ERROR", precision)


def test_a_module_that_fails_without_a_shadow_is_run_again(db, database):
    plain = _fragile(lambda _model: contextlib.nullcontext())
    watched = _fragile(lambda model: MixedPrecisionNanny(model, db=db, shadow=NEVER, quiet=True))
    differ = [key for key in plain if plain[key] != watched[key]]
    assert differ == []
    found = Finds(database())
    assert [(each["step"], each["why"]) for each in found.steps] == [(2, "rerun")]
    first = found.first()
    assert (first["kind"], first["severity"], first["precision"]) == ("range", "ERROR", "proven")
    assert first["step"] == 2 and "output" in first["reach"]
    assert first["line"] == "return (x.half() * self.scale) * 1000"
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []


def test_a_loss_that_fails_without_a_shadow_is_named_from_its_graph(train):
    model = nn.Linear(8, 8)

    def loss_of(step: int) -> torch.Tensor:
        share = model(inputs()).sigmoid()
        if step == 2:
            share = share * torch.zeros(8)
        return share.log().mean()

    found = train(model, loss_of, steps=3, shadow=NEVER)
    first = found.first()
    assert (first["kind"], first["step"], first["phase"]) == ("undefined", 2, "loss")
    assert first["operator"] == "aten.log" and first["precision"] == "excluded"
    assert found.severe[0]["reach"] == ["loss"]


def _gives(model: nn.Linear, value: float) -> None:
    """From now on `model` gives `value`, whatever it is given."""
    with torch.no_grad():
        model.weight.zero_()
        model.bias.fill_(value)


def test_a_number_that_autograd_does_not_keep_is_read_off_the_result(train):
    """1 - p is 0 in BF16 and not in FP64, which the logarithm alone does not show."""
    model = nn.Linear(8, 8)

    def loss_of(step: int) -> torch.Tensor:
        if step == 2:
            _gives(model, 7.0)
        return (1 - model(inputs()).bfloat16().sigmoid()).log().mean()

    first = train(model, loss_of, steps=3, shadow=NEVER).first()
    assert (first["kind"], first["step"], first["operator"]) == ("range", 2, "aten.log")
    assert first["precision"] == "proven"
    # It stays finite, and what error it would have was not computed.
    assert first["cure"]["what"] == "float32" and first["cure"]["error_after"] is None


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32])
def test_what_was_rounded_to_16_bits_before_the_loss_excludes_nothing(train, kind):
    model = nn.Linear(8, 8).to(kind)

    def loss_of(step: int) -> torch.Tensor:
        if step == 2:
            _gives(model, 0.25)
        away = 0.25 - model(inputs().to(kind))
        return (away if step == 2 else away.square() + 1).log().mean()

    first = train(model, loss_of, steps=3, shadow=NEVER).first()
    assert (first["kind"], first["operator"]) == ("undefined", "aten.log")
    rounded = json.loads(first["detail"]).get("rounded_before", False)
    halves = kind is torch.bfloat16
    assert (first["precision"], rounded) == ("not_tested" if halves else "excluded", halves)


def test_a_way_that_was_not_computed_excludes_nothing(train):
    model = nn.Linear(8, 8)

    def loss_of(step: int) -> torch.Tensor:
        share = model(inputs()).sigmoid()
        away = torch.rand_like(share) if step < 2 else share.detach()
        return (share - away).log().mean() if step == 2 else share.mean()

    first = train(model, loss_of, steps=3, shadow=NEVER).first()
    assert (first["kind"], first["precision"]) == ("undefined", "not_tested")


def test_the_line_of_a_failing_loss_is_that_of_the_last_shadow_step(train):
    model = nn.Linear(8, 8)

    def loss_of(step: int) -> torch.Tensor:
        share = model(inputs()).sigmoid() * (0.0 if step == 3 else 1.0)
        return share.log().mean()

    found = train(model, loss_of, steps=4, shadow="steps=0-1")
    first = found.first()
    assert (first["kind"], first["step"]) == ("undefined", 3)
    assert first["line"] == "return share.log().mean()"


def test_without_memory_there_are_no_shadow_steps_and_that_is_said_once(
    train, database, monkeypatch
):
    monkeypatch.setattr(shadow_session, "allowance", lambda: 0)
    model = nn.Linear(8, 8)
    found = train(model, lambda _step: model(inputs()).square().mean(), steps=5)
    assert found.steps == [] and found.all == []
    notes = json.loads(database().one("SELECT notes FROM run")["notes"] or "[]")
    assert sum("shadow" in note and "memory" in note for note in notes) == 1


def test_references_beyond_the_allowance_start_again(train, monkeypatch):
    monkeypatch.setattr(shadow_session, "allowance", lambda: 20_000)
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
    found = train(model, lambda _step: model(inputs(16, 64)).square().mean(), steps=2)
    assert len(found.steps) == 2 and found.severe == []
    assert all(json.loads(each["detail"])["restarts"].get("memory") for each in found.steps)


def test_a_model_that_is_compiled_later_trains_as_ever(tmp_path):
    """In a process of its own: what was compiled once turns shadow steps off from the start."""
    program = tmp_path / "compiled.py"
    program.write_text(
        textwrap.dedent("""
        import sys
        import torch
        from mpnanny import MixedPrecisionNanny

        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        descent = torch.optim.SGD(model.parameters(), lr=0.1)
        if sys.argv[1] != "unwatched":
            nanny = MixedPrecisionNanny(model, db=sys.argv[1], shadow="every=1")
        compiled = torch.compile(model, backend="eager")
        for step in range(4):
            descent.zero_grad()
            loss = compiled(torch.randn(4, 8)).square().mean()
            loss.backward()
            descent.step()
        print(loss.item().hex())
        """)
    )

    def run(how: str) -> subprocess.CompletedProcess[str]:
        command = [*forked_python(), str(program), how]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    watched = run(str(tmp_path / "run.db"))
    assert watched.stdout == run("unwatched").stdout
    assert "torch.compile is in use" in watched.stderr


# --- the loss's own backward pass, of a step without shadow ---


def test_the_gradient_of_a_loss_that_is_finite_is_found_at_its_line(train):
    """acos at exactly 1: the loss is 0 there, its derivative infinite."""
    model = nn.Linear(8, 3)

    def loss_of(step: int) -> torch.Tensor:
        vector = model(inputs())
        cosine = vector[:, 0] * (0.0 if step == 3 else 0.1) + (1.0 if step == 3 else 0.0)
        return cosine.acos().mean()

    first = train(model, loss_of, steps=5, shadow="steps=0-1").first()
    assert (first["kind"], first["step"], first["phase"]) == ("undefined", 3, "backward")
    assert first["line"] == "return cosine.acos().mean()" and first["precision"] == "excluded"
    assert "gradient" in first["reach"]


def test_a_branch_that_where_drops_and_whose_gradient_is_nan_is_proven_to_be_precision(train):
    """1 - exp(-x) of a tiny x is 0 in FP32; log() of it is not chosen, its derivative is 0/0."""
    model = nn.Linear(8, 1)

    def loss_of(step: int) -> torch.Tensor:
        rate = model(inputs()).squeeze(1).exp() * (1e-9 if step == 3 else 1.0)
        logs = torch.log(1.0 - torch.exp(-rate))
        return -torch.where(rate > 1e-6, logs, -rate).mean()

    first = train(model, loss_of, steps=5, shadow="steps=0-1").first()
    assert (first["kind"], first["step"]) == ("range", 3)
    assert first["line"] == "logs = torch.log(1.0 - torch.exp(-rate))"
    assert first["precision"] == "proven"


def test_a_loop_that_has_become_longer_keeps_its_lines(train):
    model = nn.Linear(8, 4)

    def loss_of(step: int) -> torch.Tensor:
        share = model(inputs()).softmax(1)
        product = share
        for _ in range(2 + 40 * (step == 3)):
            product = product * share * 0.1
        return -product.sum(1).log().mean()

    first = train(model, loss_of, steps=5, shadow="steps=0-1").first()
    assert first["step"] == 3 and first["precision"] == "proven"
    assert first["line"] == "return -product.sum(1).log().mean()"


def test_a_large_graph_is_not_kept(train, monkeypatch):
    monkeypatch.setattr(loss_backward, "MOST_BYTES", 0)
    model = nn.Linear(8, 3)

    def loss_of(step: int) -> torch.Tensor:
        cosine = model(inputs())[:, 0] * (0.0 if step == 3 else 0.1) + (1.0 if step == 3 else 0.0)
        return cosine.acos().mean()

    found = train(model, loss_of, steps=4, shadow="steps=0-1")
    assert all(each["step"] != 3 or "acos" not in each["line"] for each in found.all)
