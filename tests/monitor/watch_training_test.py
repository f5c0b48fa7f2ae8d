"""@watch_training on functions of every shape."""

from __future__ import annotations

import inspect
import pickle

import pytest
import torch
from conftest import Mlp, batch, cross_entropy
from mpnanny import watch_training
from torch import nn


def _steps(model, optimizer, count, scaler=None):
    for _ in range(count):
        x, y = batch()
        loss = cross_entropy(model(x), y)
        optimizer.zero_grad()
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return float(loss.detach())


def _model():
    model = Mlp()
    return model, torch.optim.SGD(model.parameters(), lr=1e-3)


def test_a_training_function_is_one_run_from_call_to_return(db, database):
    @watch_training(db=db, quiet=True, warmup_steps=10, alert_window=50)
    def train(model, optimizer, steps=4, scaler=None):
        """Trains."""
        return _steps(model, optimizer, steps, scaler)

    assert train.__doc__ == "Trains." and list(inspect.signature(train).parameters)[0] == "model"
    model, optimizer = _model()
    scaler = torch.amp.GradScaler("cpu")
    assert train(model, optimizer, scaler=scaler) > 0
    assert train.nanny._session.scalers.main is scaler
    assert train.nanny._session.optimizers.main is optimizer
    assert train.nanny.run == "" and train.nanny.summary()["steps"] == 4
    assert not model.enter._forward_hooks
    train(model, optimizer, steps=2)
    runs = database().rows("SELECT end_reason FROM run")
    assert [run["end_reason"] for run in runs] == ["closed", "closed"]
    steps = database().rows("SELECT run_id, count(*) AS n FROM step GROUP BY run_id")
    assert [row["n"] for row in steps] == [4, 2]


def test_calls_of_a_step_function_are_steps_of_one_run(db, database):
    @watch_training(db=db, quiet=True)
    def train_step(net, optimizer):
        return _steps(net, optimizer, 1)

    model, optimizer = _model()
    for _ in range(5):
        train_step(model, optimizer)
    other, its_optimizer = _model()
    train_step(other, its_optimizer)  # another model: another run
    train_step.close()
    steps = database().rows("SELECT run_id, count(*) AS n FROM step GROUP BY run_id")
    assert [row["n"] for row in steps] == [5, 1]


def test_epochs_are_one_run_if_it_is_said(db, database):
    @watch_training(db=db, quiet=True, keep_open=True)
    def epoch(model, optimizer):
        return _steps(model, optimizer, 3)

    model, optimizer = _model()
    epoch(model, optimizer)
    epoch(model, optimizer)
    epoch.close()
    assert [row["step"] for row in database().rows("SELECT step FROM step")] == list(range(6))


def test_the_model_of_a_method_and_in_a_dict(db, database):
    class Trainer:
        def __init__(self):
            self.model, self.optimizer = _model()

        @watch_training(db=db, quiet=True)
        def fit(self, steps):
            return _steps(self.model, self.optimizer, steps)

    trainer = Trainer()
    trainer.fit(2)
    assert Trainer.fit.nanny.model is trainer.model

    @watch_training(db=db, quiet=True)
    def fit(parts):
        return _steps(parts["net"], parts["optimizer"], 2)

    model, optimizer = _model()
    fit({"net": model, "optimizer": optimizer})
    assert len(database().rows("SELECT * FROM step")) == 4


def test_an_exception_ends_the_run_and_goes_on(db, database):
    @watch_training(db=db, quiet=True)
    def train(model, optimizer):
        _steps(model, optimizer, 1)
        raise KeyError("mine")

    model, optimizer = _model()
    with pytest.raises(KeyError, match="mine"):
        train(model, optimizer)
    assert database().one("SELECT end_reason FROM run")["end_reason"] == "exception"
    assert not model.enter._forward_hooks


def test_without_a_model_the_function_runs_all_the_same(db, capfd):
    @watch_training(db=db)
    def train(numbers):
        return sum(numbers)

    assert train([1, 2]) == train([1, 2]) == 3
    assert (
        capfd.readouterr().err == "mpnanny: train got no model among its arguments: not watched\n"
    )
    with pytest.raises(TypeError, match="numbers"):
        train()


@watch_training
def at_module_level(model):
    return model


def test_a_decorated_function_pickles_by_its_name():
    assert pickle.loads(pickle.dumps(at_module_level)) is at_module_level


def test_what_is_wrong_is_said_where_it_is_decorated():
    with pytest.raises(TypeError, match="intervall"):
        watch_training(trace_intervall=3)

    with pytest.raises(TypeError, match="generator"):

        @watch_training
        def steps(model):
            yield model


def test_frozen_teachers_are_not_the_model(db):
    @watch_training(db=db, quiet=True)
    def distil(teacher, student, optimizer):
        return _steps(student, optimizer, 2)

    teacher = nn.Linear(2, 2).eval().requires_grad_(False)
    model, optimizer = _model()
    distil(teacher, model, optimizer)
    assert distil.nanny.model is model
