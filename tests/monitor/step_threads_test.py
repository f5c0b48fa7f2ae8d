"""Trainings of several threads: a run hears the thread that has its step, and no other one."""

from __future__ import annotations

import json
import pathlib
import threading
from typing import Any

import pytest
import torch
import torch.optim.optimizer as torch_optimizer
from conftest import Database
from mpnanny import MixedPrecisionNanny, watch_training
from mpnanny.steps import call_order
from torch import nn


class Thread(threading.Thread):
    """Its own error is raised where it is waited for."""

    def __init__(self, call: Any) -> None:
        super().__init__(daemon=True)
        self._call = call
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self._error = error

    def end(self) -> None:
        self.join(60)
        assert not self.is_alive()
        if self._error is not None:
            raise self._error


def in_thread(call: Any) -> Thread:
    thread = Thread(call)
    thread.start()
    return thread


def elsewhere(call: Any) -> None:
    in_thread(call).end()


def made(value: float = 1.0) -> tuple[nn.Sequential, torch.optim.Optimizer]:
    """A model whose loss is `value` squared at each step."""
    model = nn.Sequential(nn.Linear(4, 1))
    nn.init.zeros_(model[0].weight)
    nn.init.constant_(model[0].bias, value)
    return model, torch.optim.SGD(model.parameters(), lr=0.0)


def step(model: nn.Module, optimizer: Any, clip: float = 0, scaler: Any = None) -> None:
    loss = model(torch.zeros(2, 4)).square().mean()
    optimizer.zero_grad()
    (loss if scaler is None else scaler.scale(loss)).backward()
    if scaler is not None:
        scaler.unscale_(optimizer)
    if clip:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()


def watched(path: pathlib.Path, model: nn.Module, optimizer: Any, scaler: Any = None) -> Any:
    return MixedPrecisionNanny(model, optimizer, scaler, db=path, quiet=True, trace_interval=1)


def test_another_training_leaves_no_trace_in_the_run(tmp_path, database):
    model, optimizer = made()
    other, others = made(100.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    def train_other() -> None:
        step(other, others, clip=5.0, scaler=scaler)
        other.load_state_dict(other.state_dict())
        others.load_state_dict(others.state_dict())

    with watched(tmp_path / "a.db", model, optimizer) as nanny:
        for number in range(4):
            with nanny.step(number):
                elsewhere(train_other)  # in the middle of the step
                step(model, optimizer)
        notes = nanny.summary()["notes"]
    found = Database(tmp_path / "a.db")
    assert [row["loss"] for row in found.rows("SELECT loss FROM step ORDER BY step")] == [1.0] * 4
    foreign = "SELECT 1 FROM event WHERE type IN ('clip', 'scaler', 'unscale', 'loaded')"
    assert not found.rows(foreign)
    assert [row["loss_scale"] for row in found.rows("SELECT loss_scale FROM step")] == [None] * 4
    assert not any("no run watches" in each for each in notes)


def test_each_of_two_runs_has_what_its_thread_trains(tmp_path):
    turn = threading.Barrier(2, timeout=60)

    def train(value: float, scale: float, clip: float) -> None:
        model, optimizer = made(value)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        path = tmp_path / f"{value}.db"
        nanny = watched(path, model, optimizer, scaler)
        for number in range(6):
            with nanny.step(number):
                turn.wait()  # both are inside of a step
                step(model, optimizer, clip, scaler)
                turn.wait()
        nanny.close()

    threads = [in_thread(lambda: train(1.0, 8.0, 0.5)), in_thread(lambda: train(10.0, 4.0, 0.25))]
    for each in threads:
        each.end()
    for value, scale, clip in ((1.0, 8.0, 0.5), (10.0, 4.0, 0.25)):
        found = Database(tmp_path / f"{value}.db")
        rows = found.rows("SELECT loss, loss_scale, grad_norm FROM step ORDER BY step")
        assert [row["loss"] for row in rows] == [value**2] * 6
        assert [row["loss_scale"] for row in rows] == [scale] * 6
        assert [row["grad_norm"] for row in rows] == pytest.approx([2 * value] * 6)
        clips = found.rows("SELECT detail FROM event WHERE type = 'clip'")
        assert {json.loads(row["detail"])["max_norm"] for row in clips} == {clip}


@pytest.mark.parametrize("blocks", [True, False])
def test_a_training_is_heard_in_whatever_thread_it_goes_on(tmp_path, blocks):
    model, optimizer = made()
    nanny = watched(tmp_path / "a.db", model, optimizer)
    for number in range(3):
        if blocks:
            with nanny.step(number):
                elsewhere(lambda: step(model, optimizer))
        else:
            elsewhere(lambda: step(model, optimizer))
    step(model, optimizer)
    nanny.close()
    found = Database(tmp_path / "a.db")
    rows = found.rows("SELECT loss, grad_norm FROM step ORDER BY step")
    assert [(row["loss"], row["grad_norm"]) for row in rows][:3] == [(1.0, pytest.approx(2.0))] * 3
    samples = found.rows("SELECT DISTINCT step FROM tensor_stats ORDER BY step")
    assert [row["step"] for row in samples][:3] == [0, 1, 2]


def test_an_evaluation_in_another_thread_is_no_part_of_the_step(tmp_path):
    model, optimizer = made()
    path = tmp_path / "a.db"
    nanny = watched(path, model, optimizer)
    begun, over = threading.Event(), threading.Event()

    class Gate(nn.Module):
        """An evaluation goes on for as long as the training needs."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.is_grad_enabled():
                begun.set()
                assert over.wait(60)
            return x

    model.insert(0, Gate())

    def evaluate() -> None:
        with torch.no_grad():
            model(torch.full((7, 4), 1e30))

    for number in range(3):
        begun.clear()
        over.clear()
        thread = in_thread(evaluate)
        assert begun.wait(60)
        with nanny.step(number):
            step(model, optimizer)
            over.set()
            thread.end()
    nanny.close()
    found = Database(path)
    assert len(found.rows("SELECT 1 FROM step")) == 3
    rows = found.rows("SELECT DISTINCT step, absmax FROM tensor_stats WHERE kind = 1")
    assert {row["step"] for row in rows} == {0, 1, 2}
    assert all(row["absmax"] < 1e20 for row in rows)


def test_close_in_the_middle_of_another_threads_step(tmp_path):
    model, optimizer = made()
    path = tmp_path / "a.db"
    nanny = watched(path, model, optimizer)
    inside, closed = threading.Event(), threading.Event()

    class Waits(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not inside.is_set():
                inside.set()
                assert closed.wait(60)
            return x

    def train() -> None:
        with nanny.step(0):
            step(model, optimizer)
        model.append(Waits())
        nanny_step = nanny.step(1)
        with nanny_step:
            step(model, optimizer)
        step(model, optimizer)

    thread = in_thread(train)
    assert inside.wait(60)
    nanny.close()
    closed.set()
    thread.end()
    found = Database(path)
    assert [row["step"] for row in found.rows("SELECT step FROM step")] == [0]
    assert found.one("SELECT end_reason FROM run")["end_reason"] == "closed"
    assert not model._forward_hooks and not model[0]._forward_hooks


def test_hooks_that_another_thread_removes_while_torch_calls_them(tmp_path):
    """torch finds a hook, and asks afterwards whether it takes keyword arguments."""
    model, optimizer = made()
    nanny = watched(tmp_path / "a.db", model, optimizer)
    step(model, optimizer)

    def close(module: nn.Module, *_: Any) -> None:
        elsewhere(nanny.close)

    # Runs before ours, which torch has found by then.
    handle = model[0].register_forward_hook(close)
    model[0]._forward_hooks.move_to_end(handle.id, last=False)
    step(model, optimizer)
    assert not nanny.run


def test_an_optimizer_that_steps_while_the_last_run_is_closed(tmp_path):
    """torch goes through the hooks of all optimizers one by one."""
    model, optimizer = made()
    nanny = watched(tmp_path / "a.db", model, optimizer)

    def close(*_: Any) -> None:
        elsewhere(nanny.close)

    register = torch_optimizer.register_optimizer_step_pre_hook
    handles = [register(close), register(lambda *_: None)]  # torch has one more to go to
    try:
        step(model, optimizer)
    finally:
        for each in handles:
            each.remove()
    assert not nanny.run


def test_parts_that_ran_in_other_threads_are_told(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    nanny = watched(tmp_path / "a.db", model, optimizer)
    for number in range(3):
        with nanny.step(number):
            hidden = model[0](torch.ones(2, 4))
            given: list[torch.Tensor] = []
            elsewhere(lambda h=hidden, g=given: g.append(model[1](h)))  # type: ignore[misc]
            optimizer.zero_grad()
            given[0].square().mean().backward()
            optimizer.step()
    nanny.close()
    found = Database(tmp_path / "a.db")
    whole = "SELECT 1 FROM step WHERE loss IS NOT NULL AND grad_norm IS NOT NULL"
    assert len(found.rows(whole)) == 3
    told = [each for each in nanny.summary()["notes"] if "other threads" in each]
    assert len(told) == 1 and told[0].endswith(": 1") and told[0].startswith("1 watched")


def test_gradients_are_not_read_while_another_thread_derives_the_weights(tmp_path, monkeypatch):
    """Two threads derive shards of a batch: what one has so far is not read as if it were all."""
    model, optimizer = made()
    nanny = watched(tmp_path / "a.db", model, optimizer)
    within, ended = threading.Event(), threading.Event()

    class Slow(torch.autograd.Function):
        """Its backward pass goes on while another one ends."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            within.set()
            assert ended.wait(60)
            return gradient

    def slow() -> None:
        Slow.apply(model(torch.zeros(2, 4))).square().mean().backward()

    read: list[Any] = []
    monkeypatch.setattr(call_order, "nonfinite", lambda given: read.append(ended.is_set()) or 0)
    for number in range(2):
        with nanny.step(number):
            optimizer.zero_grad()
            within.clear(), ended.clear()
            thread = in_thread(slow)
            assert within.wait(60)
            model(torch.zeros(2, 4)).square().mean().backward()
            ended.set()
            thread.end()
            optimizer.step()
    nanny.close()
    assert all(read)
    found = Database(tmp_path / "a.db")
    norms = [row["grad_norm"] for row in found.rows("SELECT grad_norm FROM step ORDER BY step")]
    assert norms == pytest.approx([4.0, 4.0])  # of both shards


def test_a_decorated_function_that_two_threads_call(tmp_path):
    turn = threading.Barrier(2, timeout=60)
    begun = threading.Event()

    @watch_training(db=str(tmp_path / "a.db"), quiet=True, keep_open=False)
    def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        begun.set()
        for _ in range(4):
            turn.wait()
            step(model, optimizer)

    threads = [in_thread(lambda: train(*made(1.0)))]
    assert begun.wait(60)
    threads.append(in_thread(lambda: train(*made(2.0))))
    for each in threads:
        each.end()
    losses = []
    for path in sorted(tmp_path.glob("*.db")):
        losses += [row["loss"] for row in Database(path).rows("SELECT loss FROM step")]
    assert sorted(losses) == [1.0] * 4 + [4.0] * 4


def test_autograds_own_threads_belong_to_the_thread_whose_pass_it_is(tmp_path):
    """Backward passes within each other, more than 60 deep: torch runs the deepest in threads of
    its own, as it does for devices.
    """
    threads: set[int] = set()
    model, optimizer = made()

    class Deep(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, depth: int) -> torch.Tensor:
            ctx.depth = depth
            ctx.save_for_backward(x)
            with torch.no_grad():
                return model(x)

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> Any:
            threads.add(threading.get_ident())
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                y = Deep.apply(x, ctx.depth - 1) if ctx.depth else model(x)
                torch.autograd.backward(y, gradient)
            return x.grad, None

    nanny = watched(tmp_path / "a.db", model, optimizer)
    for number in range(2):
        with nanny.step(number):
            loss = Deep.apply(torch.zeros(2, 4, requires_grad=True), 70).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    nanny.close()
    assert len(threads) > 1
    found = Database(tmp_path / "a.db")
    passes = found.rows("SELECT detail FROM event WHERE type = 'accumulation'")
    assert passes and json.loads(passes[0]["detail"])["backwards"] > 60
    norms = [row["grad_norm"] for row in found.rows("SELECT grad_norm FROM step")]
    assert norms == pytest.approx([2.0, 2.0])
