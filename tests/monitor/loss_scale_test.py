"""check_loss_scale on real scalers."""

from __future__ import annotations

import pathlib
import re

import pytest
import torch
from mpnanny import _loss_scale, check_loss_scale


def _scaler(scale: float, **options: object) -> torch.amp.GradScaler:
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, **options)
    scaler.scale(torch.ones(()))
    return scaler


def _overflow(scaler: torch.amp.GradScaler, times: int) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(times):
        weight.grad = torch.full((2,), float("inf"))
        scaler.step(optimizer)
        scaler.update()


def test_a_scale_as_it_starts_is_fine():
    check = check_loss_scale(_scaler(65536.0))
    assert check.ok and check.status == "ok"
    assert (check.scale, check.good_steps, check.growth_interval) == (65536.0, 0, 2000)
    assert not check.synchronised
    assert "65536" in str(check)


@pytest.mark.parametrize(
    ("halvings", "status"), [(6, "ok"), (7, "low"), (15, "low"), (16, "collapsed")]
)
def test_halvings_make_it_low_and_then_collapsed(halvings, status):
    scaler = _scaler(65536.0)
    _overflow(scaler, halvings)
    check = check_loss_scale(scaler)
    assert check.status == status
    assert check.scale == 65536.0 / 2**halvings
    assert check.ok is (status == "ok")


def test_a_scale_that_was_set_low_is_not_low():
    assert check_loss_scale(_scaler(64.0)).ok
    _overflow(low := _scaler(64.0), 1)
    assert check_loss_scale(low).status == "low"


def test_a_search_from_above_is_not_low():
    _overflow(scaler := _scaler(2.0**30), 20)
    assert check_loss_scale(scaler).ok


def test_scalers_that_hold_no_scale():
    assert check_loss_scale(torch.amp.GradScaler("cpu", enabled=False)).status == "disabled"
    unused = check_loss_scale(torch.amp.GradScaler("cpu"))
    assert (unused.status, unused.scale, unused.initial_scale) == ("unused", None, 65536.0)
    with pytest.raises(TypeError, match="GradScaler"):
        check_loss_scale(None)


def test_a_scale_that_is_no_number_has_collapsed():
    scaler = _scaler(65536.0)
    scaler._scale.fill_(float("nan"))
    assert check_loss_scale(scaler).status == "collapsed"


def test_a_scale_on_a_device_says_that_it_waited():
    class OnDevice(torch.Tensor):
        device = torch.device("cuda", 0)

    scaler = _scaler(1024.0)
    scaler._scale = scaler._scale.as_subclass(OnDevice)
    check = check_loss_scale(scaler)
    assert check.synchronised and check.scale == 1024.0
    assert check.text.endswith("(Reading it waited for the device to finish.)")


def test_the_check_leaves_the_scaler_as_it_was():
    scaler = _scaler(65536.0)
    before = scaler.state_dict()
    check_loss_scale(scaler)
    assert scaler.state_dict() == before


def test_the_bounds_are_those_of_the_alerts():
    header = (pathlib.Path(__file__).parents[2] / "numerics" / "alert_bounds.h").read_text()

    def bound(name: str) -> float:
        return float(re.search(rf"{name} = ([0-9.e]+)", header)[1])

    assert bound("kLowScaleFloor") == _loss_scale.LOW_FLOOR
    assert bound("kLowScaleDivisor") == _loss_scale.LOW_DIVISOR
    assert bound("kUsualInitialScale") == _loss_scale.USUAL_INITIAL
    assert bound("kCollapseScale") == _loss_scale.COLLAPSED
