"""What a user sees while it happens: progress, the early warning, on_alert, summary()."""

from __future__ import annotations

import importlib
import json
import os
import pty

import pytest
import torch
from conftest import Mlp, batch, cross_entropy
from mpnanny import Alert, MixedPrecisionNanny, Summary, watch_model
from mpnanny.base.console import Console
from mpnanny.operators import places
from mpnanny.report import progress
from mpnanny.report.course import Course
from mpnanny.steps.step import OpenStep


def _train(nanny, model, steps, *, scaler=None, poison=()):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for number in range(steps):
        x, y = batch()
        if number in poison:
            x[0, 0] = float("inf")
        with nanny.step(number):
            loss = cross_entropy(model(x), y)
            optimizer.zero_grad()
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()


def test_summary_tells_a_healthy_run(db, capfd):
    model = Mlp()
    nanny = MixedPrecisionNanny(model, db=db)
    handle = nanny.run
    _train(nanny, model, 5)
    before = nanny.summary()
    assert before["steps"] == 5
    nanny.close()
    summary = nanny.summary()
    assert isinstance(summary, Summary)
    assert summary["run"] == handle
    assert summary["seconds"] > 0
    assert 0 < summary["loss"]["min"] <= summary["loss"]["first"]
    assert (summary["loss_scale"], summary["skipped_steps"], summary["alerts"]) == (None, 0, [])
    assert json.loads(json.dumps(summary)) == summary
    told = capfd.readouterr().err
    assert "mpnanny: 5 steps in " in told
    assert "alerts: none" in told
    # Without an alert a run may be bad as well: the program judges it.
    assert before["verdict"] == "" and summary["verdict"].startswith("HEALTHY")
    assert f"Next: mpnanny summary --db {handle}" in told
    assert str(summary).splitlines() == [
        line.removeprefix("mpnanny: ") for line in told.splitlines()[-4:]
    ]


def test_without_the_program_the_end_names_who_judges_it(db, capfd, monkeypatch):
    monkeypatch.setenv("MPNANNY_PROGRAM", "/nowhere/mpnanny")
    model = Mlp()
    nanny = MixedPrecisionNanny(model, db=db)
    handle = nanny.run
    _train(nanny, model, 5)
    nanny.close()
    assert nanny.summary()["verdict"] == ""
    assert f"Next: mpnanny diagnose {handle}" in capfd.readouterr().err


def test_summary_names_the_worst_layer_and_the_skips(db, capfd):
    model = Mlp()
    nanny = MixedPrecisionNanny(model, db=db)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    _train(nanny, model, 6, scaler=scaler, poison=[3])
    nanny.close()
    summary = nanny.summary()
    assert summary["skipped_steps"] == 1
    assert summary["loss_scale"] == {
        "first": 1024.0,
        "last": 512.0,
        "min": 512.0,
        "rises": 0,
        "falls": 1,
    }
    assert summary["alerts"][0]["severity"] == "ERROR"
    assert summary["alerts"][0]["first_step"] == 3
    assert summary["worst_layers"][0]["step"] == 3
    text = str(summary)
    assert "1 step skipped" in text and "1024 -> 512 (1 fall, 0 rises)" in text
    assert "Next: mpnanny diagnose" in text
    assert text.splitlines()[0] in capfd.readouterr().err


def test_quiet_says_nothing(db, capfd):
    model = Mlp()
    nanny = MixedPrecisionNanny(model, db=db, quiet=True)
    _train(nanny, model, 105, poison=[3])
    nanny.close()
    assert capfd.readouterr().err == ""
    assert nanny.summary()["alerts"]


def test_a_callback_that_fails_costs_nothing_but_itself(db, database, capfd):
    heard: list[Alert] = []

    def on_alert(alert: Alert) -> None:
        heard.append(alert)
        raise RuntimeError("the pager is broken")

    model = Mlp()
    nanny = MixedPrecisionNanny(model, db=db, on_alert=on_alert, trace_interval=1)
    _train(nanny, model, 8, poison=[3])
    nanny.close()
    assert len(heard) == len(database().alerts()) >= 2
    assert [row["step"] for row in database().rows("SELECT step FROM step")] == list(range(8))
    assert capfd.readouterr().err.count("the pager is broken") == 1


def test_progress_is_said_seldom_in_a_log(db, capfd, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    model = Mlp()
    nanny = watch_model(model, db=db)
    nanny._session.reporter.progress._wait = 1000.0  # only the first line is due
    _train(nanny, model, 4)
    nanny.close()
    lines = [
        line for line in capfd.readouterr().err.splitlines() if line.startswith("mpnanny: step")
    ]
    assert len(lines) == 1
    assert lines[0].startswith("mpnanny: step 1, loss ")
    assert lines[0].endswith("alerts: none")


def test_ranks_say_who_they_are_and_not_all_the_same(capfd):
    for rank in (0, 1):
        console = Console(quiet=False)
        console.rank = rank
        console.say_for_all("watching")
        console.say("an alert")
    assert capfd.readouterr().err.splitlines() == [
        "mpnanny rank 0: watching",
        "mpnanny rank 0: an alert",
        "mpnanny rank 1: an alert",
    ]


def test_progress_is_rewritten_on_a_terminal(monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, os.fdopen(ours, "rb", buffering=0) as screen:
        monkeypatch.setattr("sys.stderr", terminal)
        console = Console(quiet=False)
        assert console.progress("step 1")
        assert console.progress("step 2")
        console.say("an alert")
        console.say("another")
        shown = ""
        while "another" not in shown or not shown.endswith("\n"):
            shown += screen.read(4096).decode()
    clear = "\r\x1b[K"
    assert shown.replace("\r\n", "\n") == (
        f"{clear}mpnanny: step 1{clear}mpnanny: step 2{clear}mpnanny: an alert\nmpnanny: another\n"
    )


@pytest.fixture
def course() -> Course:
    return Course(early_steps=100)


def _fill(course: Course, skipped: list[int]) -> None:
    for number in range(101):
        step = OpenStep(number, explicit=True)
        step.scale = 65536.0 / 2 ** sum(other < number for other in skipped)
        step.skipped = number in skipped
        step.scale_after = step.scale / (2 if step.skipped else 1)
        course.step(step)


def test_a_search_at_the_start_is_healthy(course):
    _fill(course, [0, 1, 2, 3, 4])
    line = progress.early_warning(course, (1000, 1, 100))
    assert line.startswith("healthy so far: 100 steps")
    assert "65536 -> 2048 (5 falls, 0 rises)" in line


def test_overflow_that_grows_is_told_with_its_trend(course):
    _fill(course, [0, 60, 70, 80, 90])
    line = progress.early_warning(course, None)
    assert line.startswith("early warning after 100 steps: 5 % of the steps overflowed")
    assert "(1 in the first half, 4 in the second: rising)" in line
    assert "65536 -> 2048" in line


def test_gradients_that_underflow_are_told(course):
    _fill(course, [])
    assert "3 % of the gradient elements underflow in FP16 at 65536" in (
        progress.early_warning(course, (1000, 30, 100))
    )
    assert progress.early_warning(course, (1000, 10, 100)).startswith("healthy so far")


def test_the_early_warning_comes_once_and_knows_the_gradients(db, capfd):
    """A real run whose gradients FP16 could not hold: a loss of 1e-9 at scale 1."""
    model = Mlp()
    nanny = MixedPrecisionNanny(model, db=db, trace_interval=10)
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0, growth_interval=10**6)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for number in range(130):
        x, y = batch()
        with nanny.step(number):
            scaler.scale(cross_entropy(model(x), y) * 1e-9).backward()
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()
    nanny.close()
    lines = [line for line in capfd.readouterr().err.splitlines() if "early warning" in line]
    assert len(lines) == 1
    assert "of the gradient elements underflow in FP16 at 1 " in lines[0]


def _take_turns(models: list[Mlp], optimizers: list[torch.optim.Optimizer], steps: int) -> None:
    for _ in range(steps):
        for model, optimizer in zip(models, optimizers, strict=True):
            loss = model(torch.full((4, 8), float("nan"))).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def test_a_model_that_nobody_watches_is_told(db, capfd):
    models = [Mlp(), Mlp()]
    optimizers = [torch.optim.Adam(each.parameters()) for each in models]
    nanny = MixedPrecisionNanny(models[0], db=db)
    _take_turns(models, optimizers, 10)
    nanny.close()
    said = "Adam trains another model (Mlp), 6 parameters, which no run watches"
    assert capfd.readouterr().err.count(said) == 1
    assert any(note.startswith(said) for note in nanny.summary()["notes"])


def test_lines_of_two_runs_say_whose_they_are(db, capfd):
    models = [Mlp(), Mlp()]
    optimizers = [torch.optim.Adam(each.parameters()) for each in models]
    nannies = [
        MixedPrecisionNanny(models[0], db=db, shadow="off"),
        MixedPrecisionNanny(models[1], db=db, shadow="off", name="judge"),
    ]
    _take_turns(models, optimizers, 10)
    for nanny in nannies:
        nanny.close()
    lines = capfd.readouterr().err.splitlines()
    first = f"mpnanny Mlp ({os.path.basename(db)}): "
    for whose in (first, "mpnanny judge: "):
        assert any(line.startswith(f"{whose}ERROR NAN at step 0") for line in lines), lines
        assert any(line.startswith(f"{whose}10 steps in") for line in lines), lines
    assert not any("which no run watches" in line for line in lines), lines


def test_a_class_with_the_forward_of_a_library_is_found_in_the_users_file(
    tmp_path, monkeypatch, database, db
):
    """As a LightningModule has it, which calls its parts in training_step."""
    library, own = tmp_path / "site", tmp_path / "own"
    library.mkdir()
    own.mkdir()
    (library / "some_trainer.py").write_text(
        "from torch import nn\n\n\nclass Trained(nn.Module):\n"
        "    def forward(self, *args):\n        return super().forward(*args)\n"
    )
    (own / "my_model.py").write_text(
        "from some_trainer import Trained\nfrom torch import nn\n\n\nclass Mine(Trained):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.net = nn.Sequential(nn.Linear(4, 1))\n\n"
        "    def training_step(self, x):\n        return self.net(x).mean()\n"
    )
    monkeypatch.setattr(places._files, "_site", (f"{library}{os.sep}",))
    for folder in (library, own):
        monkeypatch.syspath_prepend(str(folder))
    model = importlib.import_module("my_model").Mine()
    nanny = MixedPrecisionNanny(model, db=db, quiet=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.training_step(torch.ones(2, 4)).backward()
    optimizer.step()
    nanny.close()
    rows = database().rows("SELECT name, source FROM layer WHERE name IN ('(model)', 'net.0')")
    assert {row["name"]: row["source"] for row in rows} == {
        "(model)": f"{own / 'my_model.py'}:5",
        "net.0": f"{own / 'my_model.py'}:11",
    }
