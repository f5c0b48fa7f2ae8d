"""Scenarios that people meet, each a training with one thing wrong with it, and what the monitor
must say of it. Every test names the precision that its values are judged by.

Loss scales that collapse, NaN origins outside modules, broken batches, loss functions and
optimizers are in failures_test.py; what fires at three times its bound and not at a third in
bounds_test.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Database, Mlp, batch, cross_entropy
from mpnanny import MixedPrecisionNanny
from torch import nn

AT = 7  # the step of a fault that does not hold from the start
Fault = Callable[[int, nn.Module], None]


def train(
    db: str,
    model: nn.Module,
    *,
    precision: str,
    autocast: torch.dtype | None = None,
    steps: int = 20,
    fault: Fault = lambda step, model: None,
    factor: float = 1.0,
    lr: float = 1e-3,
    interval: int = 1,
) -> None:
    """Trains `model` for a while, with GradScaler where it runs in FP16. `fault` does its harm
    before a step; `factor` multiplies the loss.
    """
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=autocast is torch.float16)
    with MixedPrecisionNanny(
        model, optimizer, scaler, db=db, quiet=True, precision=precision, trace_interval=interval
    ) as nanny:
        for step in range(steps):
            x, y = batch()
            with torch.no_grad():
                fault(step, model)
            with nanny.step(step) as record:
                with torch.autocast("cpu", autocast, enabled=autocast is not None):
                    loss = cross_entropy(model(x), y) * factor
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                record.log(loss=loss)


def one(database: Callable[[], Database], **where: Any) -> dict[str, Any]:
    """The only alert like that; `layer` is its name."""
    found = database().alerts()
    for key, value in where.items():
        found = [alert for alert in found if alert[key] == value]
    assert len(found) == 1, [alert["message"] for alert in found]
    return found[0]


class Run(nn.Module):
    """A function as a module, which knows how often it has run."""

    def __init__(self, function: Callable[[torch.Tensor, int], torch.Tensor]) -> None:
        super().__init__()
        self.function, self.calls = function, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.function(x, self.calls - 1)


# --- the ten ---


@pytest.mark.parametrize(
    ("precision", "autocast"), [("fp16", torch.float16), ("auto", torch.bfloat16), ("auto", None)]
)
def test_1_a_normal_mlp_raises_nothing(precision, autocast, db, database):
    torch.manual_seed(0)
    train(db, Mlp(), precision=precision, autocast=autocast, steps=150)
    assert database().alerts() == []


def beside_ones(x: torch.Tensor, _call: int) -> torch.Tensor:
    return torch.cat([torch.ones(len(x), 16), x], dim=1)


def wide(size: float) -> nn.Sequential:
    """Its layer 1 adds up 16 times `size`, of either sign, and a little of the data."""
    model = nn.Sequential(Run(beside_ones), nn.Linear(24, 16, bias=False), nn.LayerNorm(16))
    model.append(nn.Linear(16, 3))
    set_size(model, size)
    return model


@torch.no_grad()
def set_size(model: nn.Sequential, size: float) -> None:
    model[1].weight[:, :16] = torch.tensor([1.0, -1.0] * 8)[:, None] * size


def test_2_weights_of_4500_overflow_when_judged_by_fp16(db, database):
    train(db, wide(4500.0), precision="fp16")
    alert = one(database, type="OVERFLOW", kind=1)
    assert (alert["severity"], alert["layer"], alert["step"]) == ("ERROR", "1", 0)
    assert alert["value"] == pytest.approx(72000, rel=1e-3)
    assert alert["producer"] == 1
    assert database().alerts(severity="ERROR")[0]["type"] == "OVERFLOW"


def shrunk() -> nn.Sequential:
    return nn.Sequential(Run(lambda x, _: x * 1e-8), nn.Linear(8, 16), nn.Linear(16, 3))


def test_3_activations_times_1e_8_underflow_when_judged_by_fp16(db, database):
    train(db, shrunk(), precision="fp16")
    alert = one(database, type="UNDERFLOW", layer="0", kind=1)
    assert (alert["severity"], alert["step"], alert["phase"]) == ("WARNING", 0, "forward")
    assert alert["value"] > 0.9
    assert database().alerts(severity="ERROR") == []


def test_3_activations_times_1e_8_underflow_in_fp16_autocast_judged_by_auto(db, database):
    train(db, shrunk(), precision="auto", autocast=torch.float16)
    alert = one(database, type="UNDERFLOW", kind=0)  # where autocast casts them
    assert (alert["severity"], alert["layer"], alert["step"]) == ("WARNING", "1", 0)


def test_4_the_log_of_a_negative_is_nan_judged_by_auto(db, database):
    log = Run(lambda x, call: torch.log(x - 100.0) if call >= AT else x)
    train(db, nn.Sequential(nn.Linear(8, 3), log), precision="auto")
    alert = one(database, type="NAN", producer=1, layer="1")
    assert (alert["severity"], alert["step"], alert["phase"]) == ("ERROR", AT, "forward")
    assert min(a["step"] for a in database().alerts()) == AT


def test_5_an_injected_infinity_is_inf_judged_by_auto(db, database):
    def inject(x: torch.Tensor, call: int) -> torch.Tensor:
        return x.index_fill(0, torch.tensor([0]), torch.inf) if call == AT else x

    train(db, nn.Sequential(nn.Linear(8, 3), Run(inject)), precision="auto")
    alert = one(database, type="INF", producer=1)
    assert (alert["severity"], alert["step"], alert["layer"]) == ("ERROR", AT, "1")
    assert (alert["value"], alert["phase"]) == (3, "forward")


@pytest.mark.parametrize(
    ("factor", "type_", "severity"),
    [(1e9, "GRAD_EXPLOSION", "ERROR"), (1e-12, "GRAD_VANISH", "WARNING")],
    ids=["6 a gradient above 1e4", "7 a gradient below 1e-8"],
)
def test_6_and_7_gradients_out_of_range_judged_by_auto(factor, type_, severity, db, database):
    torch.manual_seed(0)
    train(db, Mlp(), precision="auto", factor=factor, lr=1e-12 if factor > 1 else 1e-3)
    alert = one(database, type=type_)
    assert (alert["severity"], alert["step"], alert["repeats"]) == (severity, 0, 20)
    # In a plain FP32 run what FP16 could not hold is told for information.
    assert {a["type"] for a in database().alerts() if a["severity"] != "INFO"} == {type_}


def summing() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(8, 256), Run(lambda x, _: x.sum(1, keepdim=True)))
    model.append(nn.Linear(1, 3))
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.fill_(320.0)
    return model


def test_8_a_sum_of_256_times_320_overflows_when_judged_by_fp16(db, database):
    train(db, summing(), precision="fp16", steps=3, lr=1e-9)
    alert = one(database, type="OVERFLOW", kind=1, producer=1)  # layer 2 gets and makes as much
    assert (alert["severity"], alert["layer"], alert["step"]) == ("ERROR", "1", 0)
    assert alert["value"] == pytest.approx(81920, rel=1e-3) and alert["producer"] == 1


def test_8_the_same_sum_is_inf_in_fp16_autocast_judged_by_auto(db, database):
    train(db, summing(), precision="auto", autocast=torch.float16, steps=3)
    alert = one(database, type="INF", producer=1)
    assert (alert["severity"], alert["layer"], alert["step"]) == ("ERROR", "1", 0)


def test_9_an_overflow_and_then_a_nan_are_both_told_judged_by_fp16(db, database):
    model = wide(4500.0)
    model.append(Run(lambda x, _: torch.log(x.clamp(max=-1.0))))
    train(db, model, precision="fp16", steps=1)
    overflow, nan = one(database, type="OVERFLOW", kind=1), one(database, type="NAN", producer=1)
    assert (overflow["layer"], overflow["producer"], overflow["severity"]) == ("1", 1, "ERROR")
    assert (nan["layer"], nan["severity"], nan["phase"]) == ("4", "ERROR", "forward")


def test_9_in_fp16_the_layer_that_overflowed_is_the_producer_judged_by_auto(db, database):
    train(db, wide(4500.0), precision="auto", autocast=torch.float16, steps=1)
    inf, nan = one(database, type="INF", layer="1"), database().alerts(type="NAN")[0]
    assert (inf["producer"], inf["severity"]) == (1, "ERROR")
    assert (nan["layer"], nan["producer"]) == ("2", 0)  # the LayerNorm turns it into NaN


def test_10_a_slow_drift_is_silent_until_it_overflows_judged_by_fp16(db, database):
    """With a loss scale of 1024 that stands still: gradients fit as well."""
    sizes = [50.0 * step for step in range(101)]  # up to 5000: outputs up to 80000
    train(
        db,
        wide(1.0),
        precision="fp16",
        steps=len(sizes),
        factor=1024.0,
        lr=1e-9,
        fault=lambda step, model: set_size(model, max(1.0, sizes[step])),
    )
    alert = one(database, type="OVERFLOW", kind=1)
    first = next(step for step, size in enumerate(sizes) if 16 * size >= 65520)
    assert (alert["severity"], alert["layer"], alert["step"]) == ("ERROR", "1", first)
    assert alert["repeats"] == len(sizes) - first
    # Silent at first; a warning that it comes close is welcome.
    near = next(step for step, size in enumerate(sizes) if 16 * size > 0.9 * 65504)
    assert [a["type"] for a in database().alerts() if a["step"] < near] == []
    assert {a["type"] for a in database().alerts() if a["step"] < first} <= {"SATURATION"}


# --- and more ---


class Overflowing(torch.autograd.Function):
    """Passes on; its gradient is beyond FP16 at the steps in `at`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, now: bool) -> torch.Tensor:
        ctx.now = now
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient * (1e30 if ctx.now else 1.0), None


def test_skipped_steps_beyond_what_growing_costs_judged_by_auto(db, database):
    at = (30, 45, 60, 75)
    model = nn.Sequential(nn.Linear(8, 16), Run(lambda x, c: Overflowing.apply(x, c in at)))
    model.append(nn.Linear(16, 3))
    train(db, model, precision="auto", autocast=torch.float16, steps=100, interval=100)
    alert = one(database, type="STEP_SKIPPED")
    assert (alert["severity"], alert["step"], alert["value"]) == ("WARNING", 60, 3)
    skipped = database().rows("SELECT step FROM step WHERE flags & 8 ORDER BY step")
    assert [row["step"] for row in skipped] == list(at)
    assert database().alerts(severity="ERROR") == []


def test_bf16_updates_that_vanish_judged_by_auto(db, database):
    """Weights of about 1 in BF16 do not feel updates of 1e-6: half an ulp is 0.002."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).bfloat16()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.rand(parameter.shape) + 1.0)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    with MixedPrecisionNanny(model, db=db, quiet=True, trace_interval=1) as nanny:
        for step in range(8):
            x, y = batch()
            with nanny.step(step):
                optimizer.zero_grad()
                cross_entropy(model(x.bfloat16()), y).backward()
                optimizer.step()
    stuck = {name for name, p in model.named_parameters() if torch.equal(p, before[name])}
    assert stuck == set(before)  # no weight has moved
    for name in stuck:
        alert = one(database, type="STALE_UPDATE", layer=name)
        assert (alert["severity"], alert["step"], alert["phase"]) == ("WARNING", 2, "optimizer")
        assert alert["value"] > 0.5
    rows = database().rows("SELECT numel, frozen FROM tensor_stats WHERE kind = 5")
    assert rows and all(row["frozen"] == row["numel"] for row in rows)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.branch(x)


def test_a_branch_that_a_residual_stream_absorbs_judged_by_auto(db, database):
    """1000 + 1 in BF16 is 1000: an ulp there is 4."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), Residual(), nn.LayerNorm(16), nn.Linear(16, 3))
    with torch.no_grad():
        model[0].weight.mul_(0.01)
        model[0].bias.copy_(torch.linspace(900.0, 1100.0, 16))
        model[1].branch.weight.mul_(1e-3)
    train(db, model, precision="auto", autocast=torch.bfloat16, steps=5, lr=1e-6)
    alert = one(database, type="ABSORPTION", layer="1")
    assert (alert["severity"], alert["step"], alert["phase"]) == ("WARNING", 0, "forward")
    assert alert["value"] > 0.5


def test_one_dimension_that_dwarfs_the_others_judged_by_auto(db, database):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 3))
    with torch.no_grad():
        model[0].weight[5] *= 1e5
    train(db, model, precision="auto", autocast=torch.bfloat16, steps=5, lr=1e-9)
    alerts = database().alerts(type="DIM_IMBALANCE")
    assert {a["layer"] for a in alerts} & {"0", "0.weight"}
    assert {a["severity"] for a in alerts} == {"WARNING"}
    assert all(a["value"] > 1e4 for a in alerts)


def test_a_dead_layer_among_living_ones_judged_by_auto(db, database):
    """A ReLU that lets nothing through: what lies before it learns nothing."""

    class TwoWays(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dead, self.living = nn.Linear(8, 16), nn.Linear(8, 16)
            self.leave = nn.Linear(16, 3)
            nn.init.constant_(self.dead.bias, -100.0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.leave(self.dead(x).relu() + self.living(x).relu())

    torch.manual_seed(0)
    train(db, TwoWays(), precision="auto", steps=10)
    alerts = database().alerts(type="DEAD_LAYER")
    assert {a["layer"] for a in alerts} <= {"dead", "dead.weight", "dead.bias"} and alerts
    assert {(a["severity"], a["phase"]) for a in alerts} == {("WARNING", "backward")}
    assert database().alerts(severity="ERROR") == []


def test_a_loss_spike_judged_by_auto(db, database):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    spike = Run(lambda x, call: x * 100 if call == 150 else x)
    train(db, model.append(spike), precision="auto", steps=170, interval=100, lr=1e-2)
    alert = one(database, type="LOSS_SPIKE")
    assert (alert["severity"], alert["step"], alert["phase"]) == ("WARNING", 150, "loss")
    assert alert["repeats"] == 1
