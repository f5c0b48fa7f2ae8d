"""A training all of whose steps are shadow steps is the training that was not watched, bit for bit,
and nothing of it stays behind.
"""

from __future__ import annotations

import gc
import json
import pathlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import trainings
import trial_loop
from compatibility_changes import CHANGES
from compatibility_features import FEATURES as MONITORS
from compatibility_features import STEPS
from compatibility_tensors import TENSORS
from compatibility_test import Unwatched, hooks_of, left_behind
from conftest import Database, Mlp, batch, cross_entropy
from features import FEATURES
from leavings import course_of, expect_same, image, image_of, states_of
from mpnanny import MixedPrecisionNanny
from mpnanny.operators.modes import ModeStack, StepMode
from torch import nn

ALL = MONITORS | CHANGES | TENSORS | FEATURES

# Where not every step is one, and what is said of it.
NOT_ALL = {
    "a compiled model": "torch.compile is in use",
    "counting operators": "a dispatch mode of the program is on",
    "fake tensors in between": "a dispatch mode of the program is on",
}
SHORT = 5  # steps of a training

# Of each precision, and of each way to make a step; the others with --slow.
SOME = (
    "mlp fp16",
    "cnn bf16",
    "gpt fp32",
    "gpt bf16",
    "lstm bf16",
    "gan fp16",
    "unet bf16",
    "recommender fp32",
    "experts fp32",
)


def trouble_of(database: Database) -> list[Any]:
    """What the monitor could not do."""
    rows = database.rows("SELECT detail FROM event WHERE type = 'hook_failed'")
    return [row["detail"] for row in rows]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ALL)
def test_every_step_a_shadow_step_is_the_same_training(name, db, database):
    two_threads = "thread" in name  # whose versions depend on when they are read
    _, plain, unwatched = course_of(lambda: ALL[name](lambda model: Unwatched()))
    before = left_behind()

    def watch(model: nn.Module) -> MixedPrecisionNanny:
        return MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True)

    _, shadowed, model = course_of(lambda: ALL[name](watch))
    if two_threads:
        for each in (plain, shadowed):
            each["optimizers"] = {}
            each["versions"] = each["random"] = None
    expect_same(shadowed, plain)
    assert hooks_of(model) == hooks_of(unwatched)
    after = left_behind()
    assert [key for key in after if after[key] != before.get(key)] == []
    assert after["modes"] == []

    assert trouble_of(database()) == []
    steps = database().rows("SELECT * FROM shadow_step ORDER BY step")
    if name in NOT_ALL:
        assert len(steps) < STEPS
        notes = json.loads(database().one("SELECT notes FROM run")["notes"] or "[]")
        assert sum(NOT_ALL[name] in note for note in notes) == 1
    else:
        assert len(steps) >= STEPS, steps
        assert all(each["compared"] > 0 for each in steps[:STEPS]), steps


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        name if name in SOME else pytest.param(name, marks=pytest.mark.slow)
        for name in trainings.TRAININGS
    ],
)
def test_trainings_are_the_same_bits(name, db, database, monkeypatch):
    for module in (trainings, trial_loop):
        monkeypatch.setattr(module, "STEPS", SHORT)

    def course(watch: Callable[[nn.Module], Any]) -> dict[str, Any]:
        made: list[Any] = []
        keep = trial_loop.Trained.keep

        def keeping(self: Any, nanny: Any, model: nn.Module, *optimizers: Any) -> Any:
            kept = keep(self, nanny, model, *optimizers)
            made.append((image_of(model), states_of(list(optimizers))))
            return kept

        with monkeypatch.context() as patch:
            patch.setattr(trial_loop.Trained, "keep", keeping)
            torch.manual_seed(7)
            trained = trainings.TRAININGS[name](watch)
        ((model, optimizers),) = made
        return {
            "losses": [loss.hex() for loss in trained.losses],
            "model": model,
            "optimizers": optimizers,
            "versions": trained.skipped,
            "random": torch.get_rng_state().numpy().tobytes(),
            "python's random": {key: image(value) for key, value in trained.tensors.items()},
        }

    plain = course(lambda _model: trial_loop.Unwatched())
    before = left_behind()
    shadowed = course(lambda model: MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True))
    expect_same(shadowed, plain)
    after = left_behind()
    assert [key for key in after if after[key] != before.get(key)] == []
    assert trouble_of(database()) == []
    assert database().one("SELECT count(*) AS n FROM shadow_step")["n"] == SHORT
    # Healthy, and so short that nothing can have gone wrong.
    severe = database().rows("SELECT * FROM shadow_finding WHERE severity = 'ERROR'")
    assert severe == []


@pytest.fixture
def small(db: str) -> Iterator[tuple[nn.Module, torch.optim.Optimizer, MixedPrecisionNanny]]:
    torch.manual_seed(1)
    model = Mlp()
    descent = torch.optim.SGD(model.parameters(), lr=1e-2)
    nanny = MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True)
    yield model, descent, nanny
    nanny.close()


def step(model: nn.Module, descent: torch.optim.Optimizer) -> torch.Tensor:
    descent.zero_grad()
    x, y = batch()
    output = model(x)
    cross_entropy(output, y).backward()
    descent.step()
    return output


def test_a_tensor_of_the_step_lives_as_long_as_the_program_holds_it(small):
    """Not longer than the shadow step at least, which holds what it may have to compute again."""
    model, descent, _ = small
    gone: list[weakref.ref[torch.Tensor]] = []
    for _ in range(4):
        gone.append(weakref.ref(step(model, descent)))
    gc.collect()
    assert [each() for each in gone[:-1]] == [None] * 3


def test_nothing_of_the_run_lives_on_after_its_end(db):
    torch.manual_seed(1)
    model = Mlp()
    descent = torch.optim.AdamW(model.parameters(), lr=1e-2)
    nanny = MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True)
    output = step(model, descent)
    step(model, descent)
    nanny.close()
    held = [weakref.ref(each) for each in (model, output, *model.parameters(), *model.modules())]
    del model, descent, output, nanny  # which has a reference to the model
    gc.collect()
    assert [each() for each in held if each() is not None] == []
    assert [each for each in gc.get_objects() if issubclass(type(each), StepMode)] == []


def test_a_run_that_is_closed_in_the_middle_of_a_step_takes_its_mode_off(db, database):
    for at in range(4):
        torch.manual_seed(1)
        model = Mlp()
        path = f"{db}{at}"
        with MixedPrecisionNanny(model, db=path, shadow="every=1", quiet=True) as nanny:
            x, y = batch()
            assert ModeStack().refusal() == ""
            if at > 0:
                output = model(x)
            if at > 1:
                loss = cross_entropy(output, y)
            if at > 2:
                loss.backward()
            nanny.close()
            assert torch.utils._python_dispatch._get_current_dispatch_mode_stack() == []
        if at == 1:
            cross_entropy(output, y).backward()  # a graph that was made in the shadow step
            assert model.enter.weight.grad is not None
        assert trouble_of(Database(pathlib.Path(path))) == []


def test_an_error_in_the_program_leaves_through_the_shadow_step_as_it_is(small, database):
    """The same exception object, with the program's own lines at its end."""
    model, descent, nanny = small
    step(model, descent)

    class Mine(Exception):
        pass

    error = Mine("of the program")

    def broken(_module: nn.Module, _args: Any, _output: Any) -> None:
        raise error

    hook = model.act.register_forward_hook(broken)
    with pytest.raises(Mine) as caught:
        step(model, descent)
    assert caught.value is error and error.__cause__ is None and error.__context__ is None
    hook.remove()
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        model(torch.ones(2, 5))
    step(model, descent)
    nanny.close()
    assert trouble_of(database()) == []


def test_a_graph_whose_weights_have_changed_is_refused_as_ever(db):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    descent = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)
    with MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True):
        loss = model(torch.randn(4, 4)).square().mean()
        loss.backward(retain_graph=True)
        descent.step()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_two_watched_trainings_in_two_threads_are_what_they_are_alone(tmp_path):
    """Comparisons of both go through one extension."""

    def train(seed: int, path: pathlib.Path | None) -> bytes:
        random_numbers = torch.Generator().manual_seed(seed)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).bfloat16()
        with torch.no_grad():
            for each in model.parameters():
                each.copy_(torch.randn(each.shape, generator=random_numbers) * 0.3)
        descent = torch.optim.AdamW(model.parameters(), lr=1e-2)
        nanny = MixedPrecisionNanny(model, db=path, shadow="every=1", quiet=True) if path else None
        for _ in range(12):
            descent.zero_grad()
            x = torch.randn(16, 8, generator=random_numbers).bfloat16()
            y = torch.randint(0, 3, (16,), generator=random_numbers)
            cross_entropy(model(x), y).backward()
            descent.step()
        if nanny is not None:
            nanny.close()
        return b"".join(image(each)[2] for each in model.state_dict().values())

    def findings(path: pathlib.Path) -> list[Any]:
        rows = Database(path).rows("SELECT * FROM shadow_finding")
        steps = Database(path).rows("SELECT step, why, operators, compared FROM shadow_step")
        assert trouble_of(Database(path)) == []
        return [steps, [{**row, "run_id": 0, "detail": told(row["detail"])} for row in rows]]

    def told(detail: str | None) -> dict[str, Any]:
        """A thread's function is called from elsewhere."""
        parts = json.loads(detail or "{}")
        return {name: each for name, each in parts.items() if name != "called_from"}

    seeds = (1, 2)
    alone = {seed: train(seed, None) for seed in seeds}
    one_by_one = {}
    for seed in seeds:
        assert train(seed, tmp_path / f"alone{seed}.db") == alone[seed]
        one_by_one[seed] = findings(tmp_path / f"alone{seed}.db")
    together: dict[int, bytes] = {}
    threads = [
        threading.Thread(
            target=lambda s=seed: together.update({s: train(s, tmp_path / f"both{s}.db")})
        )
        for seed in seeds
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone
    for seed in seeds:
        assert findings(tmp_path / f"both{seed}.db") == one_by_one[seed]
