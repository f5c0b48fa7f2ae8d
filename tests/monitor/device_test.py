"""Statistics of a device, without one: tensors of the CPU are taken for a device's, whose figures
arrive some steps late. What a run tells must be what it tells when the kernels read them; nothing
may wait.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import pathlib
import sqlite3
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from conftest import Database, Mlp, batch, cross_entropy
from mpnanny import MixedPrecisionNanny, _core
from mpnanny.base import later
from mpnanny.base.device_kernels import DeviceKernels
from mpnanny.steps.figures import MOST, norms, parts, readable, whole
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

PACKAGE = str(pathlib.Path(_core.__file__).parent)


@pytest.fixture
def device_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Makes the CPU a device; called with the number of steps that it is behind."""
    sent: list[later.Mail] = []
    send = later.Mail.send

    def late(lag: int) -> None:
        later.HOST.clear()
        later.DEVICES.add("cpu")

        def sends(self: later.Mail) -> None:
            sent.append(self)
            send(self)

        monkeypatch.setattr(later.Mail, "send", sends)
        monkeypatch.setattr(later.Mail, "arrived", lambda self: self not in sent[-lag:] or not lag)

    yield late
    later.HOST.add("cpu")
    later.DEVICES.discard("cpu")


@pytest.fixture(params=["kernels", "operators"])
def device(
    request: pytest.FixtureRequest, device_is_the_cpu: Callable[[int], None]
) -> Callable[[int], None]:
    """Its tensors are read by the device kernels on the stand-in for CUDA's driver, or by torch's
    operators.
    """
    if request.param == "kernels":
        request.getfixturevalue("stand_in")
    return device_is_the_cpu


def figures(x: torch.Tensor, most: int = MOST) -> list[float]:
    """As they are for the core."""
    rows = []
    for part in parts(x, most):
        counts, ends, moments = (each.tolist() for each in whole(part))
        rows.append([*counts[:5], *ends, *moments, *counts[5:]])
    return rows


@pytest.fixture
def lag_of_one(device_is_the_cpu: Callable[[int], None]) -> None:
    device_is_the_cpu(1)


KINDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "normal": lambda x: x,
    "half zero": lambda x: x.relu(),
    "squares overflow": lambda x: x * 1e30,
    "squares underflow": lambda x: x * 1e-30,
    "small spread": lambda x: 1e4 + 1e-3 * x,
    "FP16 subnormals": lambda x: 3e-8 * x,
    "FP16 maximum": lambda x: 65504 + 30 * x,
    "not finite": lambda x: torch.where(x > 1, math.nan, torch.where(x < -1, -math.inf, x)),
    "only NaN": lambda x: torch.full_like(x, math.nan),
    "only zero": lambda x: x * 0.0,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_operators_figures_are_the_kernels(kind: str) -> None:
    torch.manual_seed(1)
    drawn = KINDS[kind](torch.randn(50, 30, 7))
    types = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
    for dtype in [*types, torch.float8_e4m3fn, torch.float8_e5m2]:
        for change in (lambda x: x, lambda x: x.transpose(0, 2), lambda x: x[::3, :, 1:5]):
            x = change(drawn.to(dtype))
            plain = x.to(torch.float64)
            finite = plain[plain.isfinite()]
            nan, posinf, neginf, numel, absmax = _core.figures([x])
            rows = figures(x, 1000)
            for at, expected in enumerate((nan, posinf, neginf, int((plain == 0).sum()))):
                assert sum(row[at] for row in rows) == expected
            assert sum(row[4] for row in rows) == finite.numel()
            assert x.numel() == numel
            if not finite.numel():
                continue
            filled = [row for row in rows if row[4]]
            assert max(max(-row[5], row[6]) for row in filled) == absmax
            size = finite.abs()
            half = finite.to(torch.float16).abs().double()  # rounds to nearest, as the counts do
            for at, expected in (
                (11, ((half == 0) & (size > 0)).sum()),
                (12, ((half > 0) & (half < 2.0**-14)).sum()),
                (13, half.isinf().sum()),
                (14, (size > float(torch.tensor(0.9) * 65504)).sum()),
            ):
                assert sum(row[at] for row in rows) == int(expected), at
            for row, part in zip(rows, parts(x, 1000), strict=True):
                part = part.double()
                part = part[part.isfinite()]
                if not part.numel():
                    continue
                deviations = (part - part.mean()).square().sum()
                assert row[8] == pytest.approx(float(part.mean()), rel=1e-6, abs=1e-7 * absmax)
                assert row[9] == pytest.approx(float(deviations), rel=1e-5, abs=1e-300)
                assert row[10] == pytest.approx(float(part.square().sum()), rel=1e-5, abs=1e-300)


def test_parts_are_views_that_make_up_the_tensor() -> None:
    x = torch.arange(6000.0).reshape(10, 20, 30)
    for view in (
        x,
        x.permute(2, 0, 1),
        x[:, ::2],
        x[:, :, 3:5],
        x.expand(2, 10, 20, 30),
        x[0, 0, 0],
    ):
        for most in (1, 7, 100, 10_000):
            found = list(parts(view, most))
            assert all(0 < each.numel() <= most for each in found)
            assert sum(each.numel() for each in found) == view.numel()
            assert sum(float(each.double().sum()) for each in found) == float(view.double().sum())
            storage = view.untyped_storage().data_ptr()
            assert all(each.untyped_storage().data_ptr() == storage for each in found)


def test_norms_do_not_overflow() -> None:
    half, single = torch.full((100,), 6e4, dtype=torch.float16), torch.full((4,), 3e38)
    values = [half, torch.ones(4), single, torch.ones(9)]
    assert [float(norm) for norm in norms(values, 2.0)] == pytest.approx(
        [6e5, 2, 6e38, 3], rel=1e-3
    )
    assert [float(norm) for norm in norms(values, math.inf)] == pytest.approx(
        [6e4, 1, 3e38, 1], rel=1e-3
    )
    assert readable(torch.ones(3, dtype=torch.int32)) is None
    assert readable(torch.ones(0)) is None
    assert readable("word") is None


class Broken(nn.Module):
    """Makes a NaN in the step that it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 32)
        self.breaks = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        return x * math.nan if self.breaks else x


def train(
    path: pathlib.Path,
    steps: int = 24,
    breaks: int = -1,
    scaler: bool = False,
    explode: int = -1,
    **options: Any,
) -> tuple[Database, dict[str, torch.Tensor], list[Any]]:
    torch.manual_seed(3)
    model = nn.Sequential(Mlp(32), nn.Linear(3, 32), Broken(), nn.GELU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scale = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=5, enabled=scaler)
    alerts: list[Any] = []
    db = path / "metrics.db"
    with MixedPrecisionNanny(
        model, db=db, quiet=True, trace_interval=10, on_alert=alerts.append, **options
    ) as nanny:
        for number in range(steps):
            model[2].breaks = number == breaks
            with nanny.step(number) as step:
                x, target = batch()
                if number == explode:
                    x = x * 1e7
                loss = cross_entropy(model(x), target)
                scale.scale(loss).backward()
                scale.step(optimizer)
                scale.update()
                optimizer.zero_grad()
                step.log(loss=loss, lr=torch.tensor(0.05))
    return Database(db), model.state_dict(), alerts


EXACT = (
    "step, l.name, kind, slot, dtype, t.numel, nan, posinf, neginf, zeros, min, max, absmax,"
    " absmin, below_fp16, subnormal_fp16, above_fp16"
)
ROUNDED = "absmax, mean, std, rms, l2"
SAMPLES = (
    "SELECT {} FROM tensor_stats t JOIN layer l USING (layer_id)"
    " WHERE step <= ? ORDER BY step, l.name, kind, slot"
)
STEPS = "SELECT step, lr, loss_scale, flags & 63 AS flags, loss, grad_norm FROM step ORDER BY step"


def close(mine: dict[str, Any], theirs: dict[str, Any], names: str) -> bool:
    size = abs(theirs.get("absmax") or 0)
    return all(
        mine[name] == theirs[name]
        or mine[name] == pytest.approx(theirs[name], rel=1e-5, abs=1e-6 * size)
        for name in names.split(", ")
    )


@pytest.mark.parametrize("faults", [{}, {"scaler": True}, {"explode": 15}], ids=str)
def test_a_run_tells_the_same(
    faults: dict[str, Any], tmp_path: pathlib.Path, device: Callable[[int], None]
) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "device").mkdir()
    host, host_weights, host_alerts = train(tmp_path / "host", **faults)
    device(3)
    late, late_weights, late_alerts = train(tmp_path / "device", **faults)
    for name, weight in host_weights.items():
        assert torch.equal(weight.view(torch.int32), late_weights[name].view(torch.int32))
    # After an ERROR come dense steps, here as many steps later as the device is behind.
    errors = [alert.step for alert in host_alerts if alert.severity == "ERROR"]
    until = min([*errors, 99]) - 1
    assert host.rows(SAMPLES.format(EXACT), until) == late.rows(SAMPLES.format(EXACT), until)
    rows = host.rows(SAMPLES.format(ROUNDED), until)
    assert len(rows) > 50
    for mine, theirs in zip(late.rows(SAMPLES.format(ROUNDED), until), rows, strict=True):
        assert close(mine, theirs, ROUNDED)
    for mine, theirs in zip(late.rows(STEPS), host.rows(STEPS), strict=True):
        assert mine["flags"] == theirs["flags"]
        assert close(mine, theirs, "step, lr, loss_scale, loss, grad_norm")
    # What follows is told with less: in a light step a NaN hides the infinities beside it.
    told = [(a.step, a.type, a.layer, a.phase, a.producer) for a in late_alerts[:1]]
    assert told == [(a.step, a.type, a.layer, a.phase, a.producer) for a in host_alerts[:1]]
    assert bool(told) == ("explode" in faults)


@pytest.mark.parametrize("lag", [0, 2, 1000])
def test_an_alert_that_comes_late_carries_its_step(
    lag: int, tmp_path: pathlib.Path, device: Callable[[int], None]
) -> None:
    device(lag)
    database, _, alerts = train(tmp_path, breaks=13)
    first = alerts[0]
    assert (first.step, first.type, first.phase) == (13, "NAN", "forward")
    assert first.producer is True
    assert first.layer == "2"
    assert "NaN" in first.message
    assert [row["step"] for row in database.rows("SELECT step FROM step ORDER BY step")] == [
        *range(24)
    ]
    # Of the step that broke only whether it was finite is known: no row of made-up figures.
    assert not database.rows("SELECT * FROM tensor_stats WHERE step = 13")
    dense = database.rows("SELECT step FROM step WHERE flags & 128")
    assert bool(dense) == (lag < 5)


class Watch(TorchDispatchMode):
    """Fails on every operator that makes the host wait for a device, if the monitor calls it."""

    WAITS = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "unique", "masked_select")

    def __init__(self) -> None:
        super().__init__()
        self.ours = 0
        self.waits: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        frame: Any = sys._getframe(1)
        while frame is not None and "torch" in pathlib.Path(frame.f_code.co_filename).parts:
            frame = frame.f_back
        file = frame.f_code.co_filename if frame is not None else ""
        if file.startswith(PACKAGE) and not file.endswith("hooks/taps.py"):
            self.ours += 1
            if function.name().removeprefix("aten::").split(".")[0] in self.WAITS:
                self.waits.append(f"{function.name()} in {file}:{frame.f_lineno}")
        return function(*args, **(kwargs or {}))


def test_nothing_waits_for_the_device(
    tmp_path: pathlib.Path, device: Callable[[int], None]
) -> None:
    device(2)
    with Watch() as watch:
        train(tmp_path, scaler=True, breaks=7)
    assert watch.ours > 1000
    assert not watch.waits


def test_the_watch_sees_a_wait(tmp_path: pathlib.Path) -> None:
    """The one before is worth something: the host's way of reading a loss does wait."""
    with Watch() as watch:
        train(tmp_path, steps=2)
    assert any("_local_scalar_dense" in each for each in watch.waits)


def test_a_step_whose_figures_cannot_be_sent_is_told(
    tmp_path: pathlib.Path, device: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    device(1)
    sends = later.Mail.send

    def send(self: later.Mail) -> None:
        if len(self._waiting) > 100 or len(self._bringing) > 1:  # a sampled step
            raise RuntimeError("no memory")
        sends(self)

    monkeypatch.setattr(later.Mail, "send", send)
    database, _, _ = train(tmp_path, steps=12)
    rows = database.rows("SELECT step, loss FROM step ORDER BY step")
    assert [row["step"] for row in rows if row["loss"] is None] == [0, 10]
    assert len(rows) == 12
    assert "no memory" in database.one("SELECT notes FROM run")["notes"]


def test_what_never_arrives_is_given_up(
    tmp_path: pathlib.Path, device: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mpnanny.steps.late_steps.UNDER_WAY", 4)
    device(10**6)
    database, _, _ = train(tmp_path, steps=12)
    assert len(database.rows("SELECT * FROM step")) == 12
    assert "did not arrive" in database.one("SELECT notes FROM run")["notes"]


def test_states_without_a_known_name_are_read(
    tmp_path: pathlib.Path, device: Callable[[int], None]
) -> None:
    """They once failed on a device, and the step was never ended."""
    device(2)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
    nanny = MixedPrecisionNanny(model, db=tmp_path / "l.db", trace_interval=1, quiet=True)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).square().mean()
        loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(closure)
    nanny.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "l.db")) as file:
        events = [row[0] for row in file.execute("SELECT type FROM event")]
        steps = file.execute("SELECT count(*) FROM step").fetchone()
    assert "optimizer_state_slot" in events and "hook_failed" not in events
    assert steps == (4,)


class InPlace(nn.Module):
    """Writes into what the layer before has made; in a step in which it breaks, NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.breaks = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mul_(math.nan if self.breaks else 0.5)


@pytest.mark.parametrize("breaks", [1, 2, 13])
def test_what_is_written_in_place_is_not_blamed_on_the_layer_before(
    breaks: int, tmp_path: pathlib.Path, device: Callable[[int], None]
) -> None:
    device(1)
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 8), InPlace(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    alerts: list[Any] = []
    db = tmp_path / "metrics.db"
    with MixedPrecisionNanny(
        model, db=db, quiet=True, trace_interval=100, on_alert=alerts.append, shadow="off"
    ):
        for number in range(16):
            model[1].breaks = number == breaks
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
    assert (alerts[0].step, alerts[0].type, alerts[0].layer) == (breaks, "NAN", "1")


def test_an_overflow_before_a_layer_in_place_is_seen_where_it_is(
    tmp_path: pathlib.Path, device: Callable[[int], None]
) -> None:
    device(1)
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 8), Broken(), nn.ReLU(inplace=True), nn.Linear(8, 3))
    model[1].linear = nn.Linear(8, 8)
    alerts: list[Any] = []
    with MixedPrecisionNanny(
        model,
        db=tmp_path / "metrics.db",
        quiet=True,
        trace_interval=100,
        on_alert=alerts.append,
        shadow="off",
    ) as nanny:
        for number in range(16):
            model[1].breaks = number == 13
            with nanny.step(number), contextlib.suppress(RuntimeError):
                model(torch.randn(4, 8)).square().mean().backward()
    # Its output is read at once, since the layer behind it has written into it before.
    assert (alerts[0].step, alerts[0].layer, alerts[0].producer) == (13, "1", True)


@pytest.fixture
def driver(stand_in: DeviceKernels) -> ctypes.CDLL:
    """The stand-in for CUDA's driver, which counts its calls; a test may make some of them fail."""
    library = ctypes.CDLL(str(pathlib.Path(PACKAGE).parents[1] / "libmpn_stand_in_driver.so"))
    library.stand_in_reset()
    return library


def launches(driver: ctypes.CDLL) -> int:
    return int(driver.stand_in_made(b"cuLaunchKernel"))


@pytest.mark.parametrize("modules", [64, 250])
def test_a_step_between_samples_takes_few_launches(
    modules: int,
    tmp_path: pathlib.Path,
    device: Callable[[int], None],
    request: pytest.FixtureRequest,
) -> None:
    device(1)
    kernels = request.node.callspec.params["device"] == "kernels"
    driver = request.getfixturevalue("driver") if kernels else None
    counts = []
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(modules)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)
    db = tmp_path / "metrics.db"
    with Watch() as watch, MixedPrecisionNanny(model, db=db, quiet=True, shadow="off"):
        for _ in range(6):
            operators, before = watch.ours, 0 if driver is None else launches(driver)
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
            launched = 0 if driver is None else launches(driver) - before
            counts.append((watch.ours - operators, launched))
    allowed = 4 + modules / 64
    if kernels:  # weights, outputs, gradients, the loss
        assert all(0 < launched <= allowed for _, launched in counts[2:]), counts
        assert all(operators <= 11 for operators, _ in counts[2:]), counts
    else:
        assert all(operators <= 20 + allowed for operators, _ in counts[2:]), counts


def test_the_kernels_tell_how_exponents_are_spread(
    tmp_path: pathlib.Path,
    device: Callable[[int], None],
    request: pytest.FixtureRequest,
) -> None:
    rows = []
    for name in ("host", "device"):
        (tmp_path / name).mkdir()
        if name == "device":
            device(1)
        database, _, _ = train(tmp_path / name, steps=11)
        rows.append(
            database.rows(
                "SELECT step, l.name, kind, slot, exponents FROM tensor_stats"
                " JOIN layer l USING (layer_id) ORDER BY step, l.name, kind, slot"
            )
        )
    if request.node.callspec.params["device"] == "kernels":
        assert rows[0] == rows[1]
        assert sum(bool(row["exponents"]) for row in rows[0]) > 20
    else:
        assert not any(row["exponents"] for row in rows[1])


def test_a_step_that_rounds_away_is_stale_on_a_device_too(
    tmp_path: pathlib.Path, device: Callable[[int], None]
) -> None:
    found = []
    for name in ("host", "device"):
        if name == "device":
            device(1)
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(64, 300), nn.Linear(300, 1)).bfloat16()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
        db = tmp_path / f"{name}.db"
        with MixedPrecisionNanny(model, db=db, quiet=True, trace_interval=4, shadow="off"):
            for _ in range(33):
                optimizer.zero_grad()
                model(torch.randn(8, 64).bfloat16()).float().square().mean().backward()
                optimizer.step()
        database = Database(db)
        alerts = database.rows(
            "SELECT DISTINCT a.type, l.name FROM alert a JOIN layer l USING (layer_id)"
            " ORDER BY 1, 2"
        )
        updates = database.rows(
            "SELECT step, l.name, t.numel, zeros, frozen FROM tensor_stats t"
            " JOIN layer l USING (layer_id) WHERE kind = 5 ORDER BY 1, 2"
        )
        found.append((alerts, [row for row in updates if row["numel"] <= 8192]))
        assert {row["numel"] for row in updates} > {1, 300}
    assert found[0] == found[1]
    assert "STALE_UPDATE" in {row["type"] for row in found[1][0]}


def test_where_a_launch_fails_operators_go_on(
    tmp_path: pathlib.Path, stand_in: DeviceKernels, driver: ctypes.CDLL, lag_of_one: None
) -> None:
    torch.manual_seed(1)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    db = tmp_path / "metrics.db"
    with MixedPrecisionNanny(model, db=db, quiet=True, trace_interval=4, shadow="off"):
        for step in range(12):
            if step == 5:
                driver.stand_in_fail(b"cuLaunchKernel", 2)
            optimizer.zero_grad()
            model(torch.randn(4, 4)).square().mean().backward()
            optimizer.step()
    driver.stand_in_reset()
    database = Database(db)
    steps = database.rows("SELECT step, loss, grad_norm FROM step ORDER BY step")
    # Of the step in which it failed nothing is known that was asked by it.
    assert [row["step"] for row in steps if row["loss"] is None] in ([], [5])
    assert all(row["grad_norm"] for row in steps if row["step"] not in (5,))
    sampled = database.rows("SELECT DISTINCT step FROM tensor_stats ORDER BY step")
    assert [row["step"] for row in sampled] == [0, 4, 8]
    notes = database.rows("SELECT notes FROM run")[0]["notes"]
    assert "out of memory" in notes and "torch's operators" in notes


def test_tensors_with_gaps_are_read_as_copies(
    tmp_path: pathlib.Path, stand_in: DeviceKernels, driver: ctypes.CDLL, lag_of_one: None
) -> None:
    class Gaps(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            wide = torch.cat([x, x * math.nan], 1)
            return wide[:, : x.shape[1]] * 1, wide[:, : x.shape[1]]

    model = nn.Sequential(nn.Linear(4, 4), Gaps())
    alerts: list[Any] = []
    db = tmp_path / "metrics.db"
    with MixedPrecisionNanny(
        model, db=db, quiet=True, on_alert=alerts.append, shadow="off"
    ) as nanny:
        for step in range(4):
            with nanny.step(step):
                sum(model(torch.randn(3, 4))).square().mean().backward()
    assert not alerts  # what lies between the rows of the view is none of it
    rows = Database(db).rows(
        "SELECT t.numel, nan FROM tensor_stats t JOIN layer l USING (layer_id)"
        " WHERE l.name = '1' AND kind = 1"
    )
    assert [(row["numel"], row["nan"]) for row in rows] == [(12, 0), (12, 0)]
