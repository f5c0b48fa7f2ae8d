"""Shadow steps of trainings with torch.compile: they run eagerly where that is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from finds import Finds, inputs
from mpnanny import MixedPrecisionNanny
from torch import nn
from torch._dynamo import eval_frame

STEPS = 8


class Net(nn.Module):
    """Its variance is nothing but rounding errors."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 16)
        self.drop = nn.Dropout(0.2)
        self.leave = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.drop(self.enter(x).relu())
        wide = (hidden + 300).to(torch.bfloat16)
        variance = (wide * wide).mean(1, keepdim=True) - wide.mean(1, keepdim=True) ** 2
        return self.leave(hidden) * variance.float().tanh()


class Backend:
    """As "eager", and counts how often what it compiled runs."""

    def __init__(self) -> None:
        self.compiled = self.runs = 0

    def __call__(self, graph: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
        self.compiled += 1

        def run(*args: Any) -> Any:
            self.runs += 1
            return graph.forward(*args)

        return run


def course(
    watch: Callable[[nn.Module], Any], backend: Any, watched_first: bool
) -> tuple[list[str], list[torch.Tensor]]:
    """Losses and weights."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Net()
    nanny = watch(model) if watched_first else None
    compiled: Any = torch.compile(model, backend=backend)
    nanny = nanny or watch(model)
    descent = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(STEPS):
        descent.zero_grad()
        loss = compiled(inputs()).square().mean()
        loss.backward()
        descent.step()
        losses.append(loss.item().hex())
    if nanny is not None:
        nanny.close()
    return losses, [each.detach().clone() for each in model.parameters()]


@pytest.mark.parametrize("watched_first", [True, False])
def test_compiled_code_runs_eagerly_in_shadow_steps_only(db, database, watched_first):
    def watch(model: nn.Module) -> MixedPrecisionNanny:
        return MixedPrecisionNanny(model, db=db, shadow="every=3 eager", quiet=True)

    plain, shadowed = Backend(), Backend()
    expected = course(lambda _model: None, plain, watched_first)
    got = course(watch, shadowed, watched_first)
    # This backend rounds as eager code does.
    assert got[0] == expected[0]
    assert all(torch.equal(a, b) for a, b in zip(got[1], expected[1], strict=True))
    found = Finds(database())
    steps = [row["step"] for row in found.steps]
    assert steps[:3] == [0, 3, 6]
    assert (plain.compiled, plain.runs) == (1, STEPS)
    assert (shadowed.compiled, shadowed.runs) == (1, STEPS - 3)
    assert eval_frame._stance.stance == "default"
    assert torch.utils._python_dispatch._get_current_dispatch_mode_stack() == []
    first = next(each for each in found.severe if each["phase"] == "forward")
    assert first["line"].startswith("variance = ") and first["precision"] == "proven"
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
    notes = json.loads(database().one("SELECT notes FROM run")["notes"] or "[]")
    assert [note for note in notes if "no shadow steps" in note] == []


def test_a_compiled_backward_pass_is_seen_as_well(db, database):
    def watch(model: nn.Module) -> MixedPrecisionNanny:
        return MixedPrecisionNanny(model, db=db, shadow="every=2 eager", quiet=True)

    course(watch, "aot_eager", watched_first=True)
    phases = {row["phase"] for row in database().rows("SELECT DISTINCT phase FROM shadow_profile")}
    assert phases == {0, 1}
    assert all(row["compared"] > 10 for row in Finds(database()).steps[:4])
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []


def test_without_it_shadow_steps_end_where_torch_compile_begins(db, database):
    def watch(model: nn.Module) -> MixedPrecisionNanny:
        return MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True)

    course(watch, Backend(), watched_first=True)
    assert len(Finds(database()).steps) <= 1
    notes = json.loads(database().one("SELECT notes FROM run")["notes"] or "[]")
    assert sum("torch.compile is in use" in note for note in notes) == 1


def test_the_stance_of_the_program_comes_back(db):
    torch._dynamo.reset()
    model = Net()
    with torch.compiler.set_stance("eager_on_recompile"):
        with MixedPrecisionNanny(model, db=db, shadow="every=1 eager", quiet=True):
            assert eval_frame._stance.stance == "force_eager"
            model(inputs()).sum().backward()
        assert eval_frame._stance.stance == "eager_on_recompile"
    assert eval_frame._stance.stance == "default"


def test_a_loss_that_is_not_finite_in_a_compiled_step_is_no_trouble(db, database):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Net()
    compiled: Any = torch.compile(model, backend="aot_eager")
    descent = torch.optim.SGD(model.parameters(), lr=1e-3)
    with MixedPrecisionNanny(model, db=db, shadow="every=5 eager", quiet=True):
        for step in range(4):
            descent.zero_grad()
            x = inputs() * (float("inf") if step == 3 else 1.0)
            compiled(x).square().mean().backward()
            descent.step()
    assert database().rows("SELECT * FROM event WHERE type = 'hook_failed'") == []
