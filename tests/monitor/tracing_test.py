"""The trace of operators comes and goes: it changes no bit, disturbs nobody's modes, and is gone
after the dense steps, after an exception and in forked children.
"""

from __future__ import annotations

import copy

import pytest
import torch
from conftest import Mlp, batch, cross_entropy
from mpnanny import MixedPrecisionNanny, watch_model
from mpnanny.operators.trace import OperatorTrace
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset


def modes() -> int:
    return torch._C._len_torch_dispatch_stack()


@pytest.fixture(autouse=True)
def clean_stack():
    assert modes() == 0
    yield
    assert modes() == 0


def armed(db: str, model: nn.Module | None = None, **options) -> tuple:
    """A run whose next step is dense."""
    model = model or Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    nanny = MixedPrecisionNanny(model, optimizer, db=db, quiet=True, **options)
    with nanny.step(0) as record:
        cross_entropy(model(batch()[0]), batch()[1]).backward()
        optimizer.step()
        record.log(loss=float("nan"))
    return nanny, model, optimizer


def test_an_exception_in_a_block_ends_it(db):
    nanny, model, _ = armed(db)
    with pytest.raises(KeyError), nanny.step(1):
        model(batch()[0])
        assert modes() == 1
        raise KeyError("training")
    assert modes() == 0
    nanny.close()


class Failing(Mlp):
    fails = False

    def forward(self, x):
        out = super().forward(x)
        if self.fails:
            raise KeyError("forward")
        return out


def test_without_blocks_an_exception_in_the_model_ends_it(db):
    model = Failing()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    nanny = watch_model(model, db=db, quiet=True)
    cross_entropy(model(batch()[0]), batch()[1]).backward()
    optimizer.step()
    nanny._session.tracing.trace_next()
    model.fails = True
    with pytest.raises(KeyError):
        model(batch()[0])
    assert modes() == 0
    model.fails = False
    output = model(batch()[0])  # an exception in the loss function leaves it on …
    assert modes() == 1
    model.eval()
    with torch.no_grad():
        model(batch()[0])  # … until the next thing that is heard
    assert modes() == 0
    model.train()
    output = model(batch()[0])
    assert modes() == 1
    with pytest.raises(RuntimeError):
        output.backward()  # no scalar: an exception inside of backward()
    assert modes() == 0
    output = model(batch()[0])
    nanny.close()
    assert modes() == 0


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators += 1
        return func(*args, **(kwargs or {}))


def test_modes_of_the_program_stay_what_they_are(db, database):
    nanny, model, optimizer = armed(db)
    with Counting() as outside:  # on before the step: not traced
        with nanny.step(1):
            assert modes() == 1
            model(batch()[0]).sum().backward()
            optimizer.step()
        assert modes() == 1
    assert modes() == 0 and outside.operators > 0
    with nanny.step(2), Counting() as inside:
        assert modes() == 2
        model(batch()[0])
    assert inside.operators > 0
    block = nanny.step(3)
    block.__enter__()
    longer = Counting()
    longer.__enter__()  # stays on beyond the step's end
    block.__exit__(None, None, None)
    assert modes() == 1 and torch._C._get_dispatch_stack_at(0) is longer
    before = longer.operators
    torch.ones(2) + 1
    assert longer.operators > before
    longer.__exit__(None, None, None)
    nanny.close()
    assert (
        "a dispatch mode of the program is on" in database().one("SELECT notes FROM run")["notes"]
    )


def test_two_runs_at_once_are_both_traced(tmp_path):
    first, model, optimizer = armed(str(tmp_path / "a.db"))
    second, other, its = armed(str(tmp_path / "b.db"))
    block = first.step(1)
    block.__enter__()
    with second.step(1):
        assert modes() == 2
        cross_entropy(other(model(batch()[0]).repeat(1, 3)[:, :8]), batch()[1]).backward()
        block.__exit__(None, None, None)  # not the order of brackets
        assert modes() == 1
        optimizer.step()
        its.step()
    first.close()
    second.close()
    assert first.summary()["notes"] == second.summary()["notes"] == []


def test_the_optimizer_may_follow_the_block(db):
    nanny, model, optimizer = armed(db)
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append(modes()))
    for step in (1, 2):
        with nanny.step(step):
            cross_entropy(model(batch()[0]), batch()[1]).backward()
            assert modes() == 1
        assert modes() == 0
        optimizer.step()
        assert modes() == 0
    nanny.close()
    assert seen == [1, 1]


def test_it_ends_with_the_dense_steps(db):
    nanny, model, optimizer = armed(db, dense_steps=2)
    seen = []
    for step in range(1, 5):
        with nanny.step(step):
            seen.append(modes())
            cross_entropy(model(batch()[0]), batch()[1]).backward()
            optimizer.step()
    nanny.close()
    assert seen == [1, 1, 0, 0]


def test_closures_are_traced(db):
    model = Mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
    nanny = watch_model(model, db=db, quiet=True)
    seen = []

    def closure():
        optimizer.zero_grad()
        loss = cross_entropy(model(batch()[0]), batch()[1])
        seen.append(modes())
        loss.backward()
        return loss

    optimizer.step(closure)
    nanny._session.tracing.trace_next()
    assert set(seen) == {0}
    optimizer.step(closure)
    assert seen[-1] == 1 and modes() == 0
    nanny.close()


class Worker(TensorDataset):
    def __getitem__(self, index):
        return torch.tensor(modes()), *super().__getitem__(index)


def test_forked_workers_do_not_inherit_it(db):
    nanny, model, optimizer = armed(db)
    data = Worker(torch.randn(8, 8), torch.randint(0, 3, (8,)))
    with nanny.step(1):
        assert modes() == 1
        for on, x, y in DataLoader(data, 4, num_workers=1, multiprocessing_context="fork"):
            assert on.sum() == 0
            cross_entropy(model(x), y).backward()
        optimizer.step()
    nanny.close()


def test_a_compiled_program_is_left_alone(db, database):
    import torch._dynamo.utils

    nanny, model, optimizer = armed(db)
    try:
        compiled = torch.compile(model, backend="eager")
        seen = []
        for step in range(1, 4):
            with nanny.step(step) as record:
                loss = cross_entropy(compiled(batch()[0]), batch()[1])
                seen.append(modes())
                loss.backward()
                optimizer.step()
                record.log(loss=float("nan"))
        nanny.close()
        assert seen == [0, 0, 0]
        assert "torch.compile is in use" in database().one("SELECT notes FROM run")["notes"]
    finally:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()


def test_what_fails_in_the_trace_stays_in_it(db, database, monkeypatch):
    nanny, model, optimizer = armed(db)

    def broken(*_args):
        raise ValueError("inside")

    monkeypatch.setattr(OperatorTrace, "_before", broken)
    with nanny.step(1):
        loss = cross_entropy(model(batch()[0]), batch()[1])
        loss.backward()
        optimizer.step()
    assert torch.isfinite(loss)
    nanny.close()
    assert database().one("SELECT count(*) AS n FROM event WHERE type = 'hook_failed'")["n"] == 1


def test_masks_and_memory_not_yet_written_are_no_origins(db, database):
    """A step that is broken by its batch, full of -inf and of garbage that is healthy."""

    def step_of(model, x):
        memory = torch.empty(16, 8)
        memory.view(torch.int32).fill_(0x7FC00000)  # garbage may be NaN
        memory = torch.empty_like(memory)
        memory.copy_(x)
        out = torch.empty(16, 8)
        torch.mul(memory, 2.0, out=out)
        mask = torch.full((16, 16), -torch.inf).triu(1)
        scores = (out @ out.t() + mask).masked_fill(torch.eye(16) > 2, -torch.inf)
        scores = torch.where(torch.eye(16) > 2, torch.tensor(-torch.inf), scores)
        return model(scores.softmax(-1) @ x)

    nanny, model, optimizer = armed(db)
    with nanny.step(1) as record:
        cross_entropy(step_of(model, batch()[0]), batch()[1]).backward()
        optimizer.step()
        record.log(loss=float("nan"))
    nanny.close()
    assert database().rows("SELECT * FROM layer WHERE type = 'operator'") == []


def test_integers_kept_in_half_are_told(db, database):
    nanny, model, optimizer = armed(db)
    with nanny.step(1):
        torch.arange(100, dtype=torch.bfloat16)
        torch.tensor([1, 1, 5000, 5000]).half()
        torch.arange(5000).float().half()
        cross_entropy(model(batch()[0]), batch()[1]).backward()
        optimizer.step()
    assert nanny.summary()["notes"] == []
    counter = torch.tensor(2046, dtype=torch.float16)
    with nanny.step(2):
        torch.arange(300, dtype=torch.bfloat16)
        (torch.arange(5000)).to(torch.float16)
        for _ in range(4):
            counter += 1
        cross_entropy(model(batch()[0]), batch()[1]).backward()
        optimizer.step()
    nanny.close()
    notes = database().one("SELECT notes FROM run")["notes"]
    assert "300 different integers became 279 in bfloat16 by aten.arange" in notes
    assert "5000 different integers became" in notes and "counter in float16 stays at 2048" in notes
    assert "tracing_test.py" in notes


def test_a_copied_model_carries_nothing_of_it(db):
    nanny, model, _ = armed(db)
    with nanny.step(1):
        copied = copy.deepcopy(model)
        model(batch()[0])
    nanny.close()
    copied(batch()[0])
