"""What happened, as JSON in alert.detail: operators, counts, broken batches, calls that failed."""

from __future__ import annotations

import json
import math

import pytest
import torch
from conftest import Mlp, batch, cross_entropy, forked
from faults import FAULT, heal, line_of, train
from mpnanny import MixedPrecisionNanny
from mpnanny._core import figures
from mpnanny.operators.origins import fact_of, in_words
from torch import nn


def detail(database, **where) -> dict:
    """Of the first alert like that."""
    return json.loads(database().alerts(**where)[0]["detail"])


def log_loss(model, x, y, step):
    chances = model(x).softmax(-1)
    chances = chances * (0.0 if step >= FAULT else 1.0)
    return -torch.log(chances).mean()  # the fault


def test_operators_stand_in_the_order_in_which_one_led_to_another(lag, db, database):
    train(Mlp(), log_loss, db, blocks=True)
    told = detail(database, type="LOSS_NAN")
    assert told["where"] == "loss" and told["made"] == ["posinf"]
    assert told["traced_step"] == FAULT + 1 + lag
    log, negative = told["operators"][:2]
    assert (log["operator"], log["phase"], log["made"]) == ("aten.log", "loss", ["neginf"])
    assert log["source"] == line_of(log_loss, "# the fault")
    assert (log["dtype"], log["shape"]) == ("float32", [16, 3])
    assert (log["inputs"], log["largest_input"]) == ("finite", 0.0)
    # Of a device's tensors it is known whether there are any.
    assert (log.get("count"), log.get("of")) == ((None, None) if lag else (48, 48))
    assert negative["operator"] == "aten.neg" and negative["inputs"] == "mask"


def root_loss(model, x, y, step):
    output = model(x)
    squares = (output - output if step >= FAULT else output).square().sum(-1)
    return squares.sqrt().mean() + output.mean()  # the fault


def test_of_a_backward_pass_the_forward_operator_is_named(db, database):
    torch.manual_seed(1)
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    optimizer.register_step_post_hook(lambda *_: heal(model))
    with MixedPrecisionNanny(model, optimizer, db=db, quiet=True) as nanny:
        for step in range(8):
            with nanny.step(step):
                optimizer.zero_grad()
                root_loss(model, *batch(), step).backward()
                optimizer.step()
    told = detail(database, phase="backward")
    assert told["where"] == "gradients"
    assert told["gradients"]["not_finite"] == told["gradients"]["of"] == 6
    first, second = told["operators"]  # 1 / 0, times 0
    assert [first["made"], second["made"]] == [["posinf"], ["nan"]]
    assert first["phase"] == "backward" and first["backward_of"] == "aten.sqrt"
    assert second["inputs"] == "infinite"
    assert first["source"] == line_of(root_loss, "# the fault")


def test_the_sentence_is_made_of_the_facts():
    facts = fact_of(
        "aten.div.Tensor",
        "backward",
        "/home/me/train.py:7",
        "block.norm",
        {"backward_of": "aten.norm"},
        {"nan": 3, "posinf": 1},
        "float16",
        [2, 2],
        4,
        0,
        -0.5,
    )
    assert in_words(facts) == (
        "aten.div.Tensor in the backward pass of aten.norm (train.py:7) made 3 NaN and 1 +Inf of 4"
        " elements in float16 [2, 2]; what went in is finite, up to 0.5."
    )
    assert json.loads(json.dumps(facts)) == facts and facts["count"] == 4


class Overflows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 60000).half() + 60000


def test_a_module_says_what_went_in_and_what_came_out(db, database):
    train(nn.Sequential(nn.Linear(8, 3), Overflows()), lambda m, x, y, _: m(x).sum(), db, blocks=1)
    told = detail(database, type="INF", producer=1)
    assert (told["where"], told["made"], told["inputs"]) == ("module", ["posinf"], "finite")
    assert (told["count"], told["of"], told["dtype"]) == (48, 48, "float16")
    assert 0 < told["largest_input"] < 100


class Container(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 3)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.inner(x).sub(100).log() if self.calls > FAULT else self.inner(x)


def test_the_code_of_a_modules_own_forward_and_broken_weights(db, database):
    model = nn.Sequential(Container())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    with MixedPrecisionNanny(model, optimizer, db=db, quiet=True, dense_steps=0) as nanny:
        for step in range(FAULT + 2):
            with nanny.step(step):
                x, y = batch()
                loss = cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    assert detail(database, type="NAN", producer=1, step=FAULT)["where"] == "own_code"
    assert detail(database, phase="optimizer")["where"] == "weights_before"


def test_an_optimizer_that_breaks_finite_weights(db, database):
    model = nn.Linear(8, 3)

    class Divides(torch.optim.SGD):
        @torch.no_grad()
        def step(self, closure=None):
            for parameter in model.parameters():
                parameter.div_(0.0)

    optimizer = Divides(model.parameters(), lr=1e-2)
    with MixedPrecisionNanny(model, optimizer, db=db, quiet=True, trace_interval=1) as nanny:
        x, y = batch()
        with nanny.step(0):
            cross_entropy(model(x), y).backward()
            optimizer.step()
    told = detail(database, phase="optimizer")
    assert told["where"] == "optimizer" and told["finite_before"] is True


def test_a_broken_buffer_is_named_with_its_counts(db, database):
    model = nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3).eval())
    model[1].train = lambda mode=True: model[1]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    with MixedPrecisionNanny(model, optimizer, db=db, quiet=True) as nanny:
        for step in range(3):
            if step == 1:
                model[1].running_mean[0] = math.nan
            with nanny.step(step):
                x, y = batch()
                loss = cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
    (told,) = (json.loads(a["detail"]) for a in database().alerts(type="NAN") if a["layer"] == "1")
    assert told["where"] == "buffers"
    (buffer,) = told["buffers"]
    assert buffer == {"name": "running_mean", "nan": 1, "posinf": 0, "neginf": 0, "of": 3}


def spoiled(db: str, steps: int = 6, passes: int = 1) -> None:
    """Rows 3 and 5 of the last forward pass of step FAULT are broken, in column 2."""
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    with MixedPrecisionNanny(model, optimizer, db=db, quiet=True) as nanny:
        for step in range(steps):
            with nanny.step(step) as record:
                optimizer.zero_grad()
                for each in range(passes):
                    x, y = batch()
                    if step == FAULT and each == passes - 1:
                        x[3, 2] = math.nan
                        x[5, 2] = math.inf
                    loss = cross_entropy(model(x), y)
                    loss.backward()
                optimizer.step()
                record.log(loss=loss)


@pytest.mark.parametrize("passes", [1, 3])
def test_a_broken_batch_has_its_rows_and_columns(passes, db, database):
    spoiled(db, passes=passes)
    (first, *_) = database().alerts(phase="data")
    assert first["step"] == FAULT
    told = json.loads(first["detail"])
    assert told["where"] == "batch" and told["batch"]["call"] == passes
    (tensor,) = told["batch"]["inputs"]
    assert tensor == {
        "input": 0,
        "dtype": "float32",
        "shape": [16, 8],
        "nan": 1,
        "posinf": 1,
        "neginf": 0,
        "rows": [3, 5],
        "row_count": 2,
        "columns": [2],
        "column_count": 1,
    }


def test_the_meaning_of_every_key_is_in_the_file(db, database):
    spoiled(db)
    train(Mlp(), log_loss, db, blocks=True)
    rows = database().rows("SELECT value FROM meaning WHERE what = 'alert.detail'")
    known = {row["value"] for row in rows}
    for alert in database().alerts():
        if alert["detail"]:
            assert set(json.loads(alert["detail"])) <= known


FAILS = """
    import sys, torch
    from torch import nn
    from mpnanny import MixedPrecisionNanny

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(50, 4), nn.Linear(4, 10)
        def forward(self, ids):
            return self.head(self.table(ids).mean(1))

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    nanny = MixedPrecisionNanny(model, optimizer, db=sys.argv[1], quiet=True, **eval(sys.argv[3]))
    for step in range(5):
        ids, labels = torch.arange(12).view(4, 3), torch.tensor([0, 9, 3, 1])
        if step == 3:
            (labels if sys.argv[2] == "labels" else ids[0])[1] = 50 if sys.argv[2] == "ids" else 10
        nn.functional.cross_entropy(model(ids), labels).backward()
        optimizer.step()
"""


@pytest.mark.parametrize("which", ["labels", "ids"])
def test_labels_out_of_range_are_kept_where_the_exception_ends_the_training(which, db, database):
    process = forked(FAILS, db, which, "{}")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1 and "IndexError" in errors
    (event,) = database().rows("SELECT step, detail FROM event WHERE type = 'exception'")
    told = json.loads(event["detail"])
    assert event["step"] == 3 and told["error"] == "IndexError" and told["text"]
    tensors = {each["name"]: each for each in told["tensors"]}
    if which == "labels":
        assert told["function"] == "cross_entropy"
        assert tensors["target"] == {
            "name": "target",
            "dtype": "int64",
            "shape": [4],
            "min": 0,
            "max": 10,
        }
        assert tensors["input"] == {"name": "input", "dtype": "float32", "shape": [4, 10]}
    else:
        assert told["function"] == "embedding"
        assert (tensors["input"]["min"], tensors["input"]["max"]) == (0, 50)
        assert tensors["weight"]["shape"] == [50, 4]


def test_it_is_told_whether_the_monitor_had_called_the_operator(db, database):
    for shadow, through in (("off", False), ("every=1", True)):
        model = nn.Linear(8, 3)
        nanny = MixedPrecisionNanny(
            model, torch.optim.SGD(model.parameters()), db=db, quiet=True, shadow=shadow
        )
        with pytest.raises(IndexError):
            with nanny, nanny.step(0):
                nn.functional.cross_entropy(model(batch()[0]), torch.full((16,), 3))
        row = database().rows("SELECT detail FROM event WHERE type = 'exception'")[-1]
        assert ("through_mode" in row["detail"]) == through, row["detail"]


def test_a_minimal_record_keeps_no_words_of_an_exception(db, database):
    process = forked(FAILS, db, "labels", "{'record': 'minimal'}")
    process.communicate(timeout=120)
    (event,) = database().rows("SELECT detail FROM event WHERE type = 'exception'")
    told = json.loads(event["detail"])
    assert "text" not in told
    assert "cross_entropy" not in event["detail"] and "target" not in event["detail"]
    assert {each.get("max") for each in told["tensors"]} == {10, None}


def test_an_exception_within_the_watched_block(db, database):
    model = nn.Linear(8, 3)
    with pytest.raises(IndexError):
        with MixedPrecisionNanny(model, torch.optim.SGD(model.parameters()), db=db, quiet=True):
            nn.functional.cross_entropy(model(batch()[0]), torch.full((16,), 3))
    (event,) = database().rows("SELECT detail FROM event WHERE type = 'exception'")
    assert '"max": 3' in event["detail"]
    assert figures(model.weight)[0] == 0
