"""What is watched: every kind of tensor has its rows, and they are those tensors' figures."""

from __future__ import annotations

import json

import pytest
import torch
from conftest import Mlp, batch, cross_entropy
from mpnanny import MixedPrecisionNanny
from mpnanny.model.kinds import KINDS, METRICS
from mpnanny.steps.optimizer_states import SLOTS
from torch import nn

ROW = (
    "SELECT t.*, l.type FROM tensor_stats t JOIN layer l USING (layer_id)"
    " WHERE l.name = ? AND kind = ? AND step = ? AND slot = ?"
)


def train(model, db, steps=3, optimizer=None, dtype=None, **options):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
    with MixedPrecisionNanny(model, optimizer, db=db, quiet=True, **options) as nanny:
        for step in range(steps):
            with nanny.step(step) as record:
                x, y = batch()
                x = x if dtype is None else x.to(dtype)
                loss = cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                record.log(loss=loss)
    return optimizer


def test_every_kind_has_rows(db, database):
    train(Mlp(), db)
    kinds = database().rows("SELECT kind, count(*) AS n FROM tensor_stats GROUP BY kind")
    # 5 leaves; the model's own input and output are those of the first and the last; 6 parameters.
    assert {row["kind"]: row["n"] for row in kinds} == {0: 5, 1: 5, 2: 5, 3: 6, 4: 6, 5: 6, 6: 12}


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_chosen_is_watched(kind, db, database):
    train(Mlp(), db, kinds=kind, metrics=("absmax", "nan"))
    rows = database().rows("SELECT * FROM tensor_stats")
    assert rows and {row["kind"] for row in rows} == {KINDS.index(kind)}
    for row in rows:
        assert row["absmax"] is not None and row["nan"] == 0 and row["numel"] > 0
        assert {row[name] for name in METRICS} == {row["absmax"], 0, None}
        assert row["exponents"] is None and row["posinf"] is None


def test_a_name_that_there_is_not_is_refused(db):
    with pytest.raises(ValueError, match="did you mean 'gradient'"):
        MixedPrecisionNanny(Mlp(), db=db, kinds=["gradients"])
    with pytest.raises(ValueError, match="metrics: 'median' is not known"):
        MixedPrecisionNanny(Mlp(), db=db, metrics="median")


def test_updates_and_state_are_those_of_the_optimizer(db, database):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 3, bias=False))
    before = model[0].weight.detach().clone()
    optimizer = train(model, db, steps=1)
    moved = (model[0].weight.detach().double() - before.double()).flatten()
    row = database().one(ROW, "0.weight", 5, 0, 0)
    assert row["numel"] == 24 and row["dtype"] == 1 and row["frozen"] == 0
    assert row["absmax"] == moved.abs().max().item()
    assert row["l2"] == pytest.approx(moved.norm().item(), rel=1e-12)
    state = optimizer.state[model[0].weight]
    for name in ("exp_avg", "exp_avg_sq"):
        row = database().one(ROW, "0.weight", 6, 0, SLOTS[name])
        assert row["absmax"] == state[name].abs().max().item()
    names = database().rows("SELECT value, text FROM meaning WHERE what = 'optimizer_state.slot'")
    told = {row["value"]: row["text"] for row in names}
    assert {name: told[str(slot)] for name, slot in SLOTS.items()} == {n: n for n in SLOTS}


class Lazy(torch.optim.SGD):
    """An optimizer with a state that nobody has heard of."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["patience"] = torch.full_like(parameter, 3.0)
        return super().step(closure)


def test_a_state_without_a_known_name_tells_it(db, database):
    model = nn.Linear(8, 3)
    train(model, db, steps=1, optimizer=Lazy(model.parameters(), lr=1e-2))
    event = database().one("SELECT detail FROM event WHERE type = 'optimizer_state_slot'")
    assert json.loads(event["detail"]) == {"slot": 32, "name": "patience"}
    assert database().one(ROW, "weight", 6, 0, 32)["min"] == 3.0


def test_reading_the_state_leaves_it_alone(db):
    model = nn.Linear(8, 3)
    optimizer = train(model, db, optimizer=torch.optim.SGD(model.parameters(), lr=1e-2))
    assert dict(optimizer.state) == {
        p: {"momentum_buffer": None} for p in model.parameters()
    } or not any(optimizer.state.values())


class InPlace(nn.Module):
    """The input of `last` is the very object that `first` gave, but no longer what it was."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        x.mul_(100.0)
        return self.last(x)


def test_an_input_is_read_again_after_an_operation_in_place(db, database):
    torch.manual_seed(0)
    train(InPlace(), db, steps=1)
    given = database().one(ROW, "first", 1, 0, 0)["absmax"]
    assert database().one(ROW, "last", 0, 0, 0)["absmax"] == pytest.approx(100 * given, rel=1e-6)


def test_an_input_that_is_an_output_is_the_same_row(db, database):
    torch.manual_seed(0)
    train(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3)), db, steps=1)
    given, taken = (database().one(ROW, *place, 0, 0) for place in (("0", 1), ("1", 0)))
    for name in ("numel", *METRICS):
        assert given[name] == taken[name], name


def test_buffers_are_rows_and_read_when_they_changed(db, database):
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    model.register_buffer("mask", torch.full((80, 80), float("-inf")).triu(1))
    train(model, db, steps=4, trace_interval=1)
    rows = database().rows(
        "SELECT l.name, step, neginf FROM tensor_stats t JOIN layer l USING (layer_id)"
        " WHERE l.type = 'buffer' AND kind = 4"
    )
    steps = {
        name: [r["step"] for r in rows if r["name"] == name] for name in ("mask", "1.running_mean")
    }
    assert steps == {"mask": [0], "1.running_mean": [0, 1, 2, 3]}
    assert [row["neginf"] for row in rows if row["name"] == "mask"] == [80 * 79 // 2]
    assert database().alerts() == []


def test_a_buffer_that_breaks_is_told_by_its_name(db, database):
    model = Mlp()
    model.register_buffer("average", torch.zeros(3))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    with MixedPrecisionNanny(model, optimizer, db=db, quiet=True, trace_interval=1) as nanny:
        for step in range(6):
            with nanny.step(step):
                x, y = batch()
                optimizer.zero_grad()
                cross_entropy(model(x), y).backward()
                optimizer.step()
                model.average.add_(1.0 if step < 3 else float("nan"))
    (alert,) = database().alerts()
    assert (alert["type"], alert["phase"], alert["step"]) == ("NAN", "forward", 3)
    assert (alert["layer"], alert["producer"], alert["severity"]) == ("average", 1, "ERROR")


# --- updates that vanish, and those that only seem to ---


def stale(db, database, model, optimizer, dtype=None, steps=6):
    train(model, db, steps, optimizer, dtype=dtype, trace_interval=1)
    return {alert["layer"] for alert in database().alerts(type="STALE_UPDATE")}


def test_bf16_weights_that_cannot_move_are_stale_and_fp32_ones_are_not(db, database):
    torch.manual_seed(0)
    model = Mlp().bfloat16()
    found = stale(
        db, database, model, torch.optim.AdamW(model.parameters(), lr=1e-5), torch.bfloat16
    )
    assert {"enter.weight", "middle.weight", "leave.weight"} <= found
    row = database().one(ROW, "middle.weight", 5, 5, 0)
    assert row["frozen"] > 512 and row["dtype"] == 3
    torch.manual_seed(0)
    model = Mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    assert stale(db + "2", lambda: type(database())(db + "2"), model, optimizer) == set()


def test_a_learning_rate_of_zero_is_not_stale(db, database):
    model = Mlp().bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    assert stale(db, database, model, optimizer, torch.bfloat16) == set()


class Words(nn.Module):
    """An embedding of which a batch uses 4 of 64 rows."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.leave = nn.Embedding(64, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leave(self.table(x[:, 0].abs().long() % 4))


def test_rows_that_a_batch_does_not_use_are_not_stale(db, database):
    torch.manual_seed(0)
    model = Words().bfloat16()
    with torch.no_grad():
        model.table.weight.mul_(1e-3)  # small enough to move
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    assert "table.weight" not in stale(db, database, model, optimizer)


class Compensated(torch.optim.SGD):
    """Keeps what a BF16 weight is too coarse for, and adds it when it is enough."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                rest = self.state[parameter].setdefault("kahan_comp", torch.zeros_like(parameter))
                rest.sub_(group["lr"] * parameter.grad)
        return None


def test_an_optimizer_that_keeps_the_rest_is_not_stale(db, database):
    model = Mlp().bfloat16()
    optimizer = Compensated(model.parameters(), lr=1e-6)
    assert stale(db, database, model, optimizer, torch.bfloat16) == set()


def test_adam_whose_eps_hides_the_second_moment_is_told(db, database):
    torch.manual_seed(0)
    model = Mlp()
    train(model, db, 2, torch.optim.Adam(model.parameters(), lr=1e-3, eps=10.0))
    event = database().one("SELECT detail FROM event WHERE type = 'adam_eps'")
    assert json.loads(event["detail"]) == {"eps": 10.0, "tensors": 6, "of": 6}
    train(model, db + "2", 2)
    assert type(database())(db + "2").rows("SELECT * FROM event WHERE type = 'adam_eps'") == []
