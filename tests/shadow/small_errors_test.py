"""Errors that are none, small errors that matter, and what is not known: each in one training."""

from __future__ import annotations

import math

import torch
from finds import inputs
from mpnanny.fp64.history import Held, is_backed, version_of
from torch import nn

# --- what is no error, or an error that is small ---


def test_the_same_number_from_two_ways_is_an_error_where_its_difference_is_used(train):
    """A stored log-probability in BF16: the difference to itself is 0 but for rounding, and exp()
    of it should be 1.
    """
    model = nn.Linear(8, 256)

    def loss_of(_step: int) -> torch.Tensor:
        log_prob = -model(inputs()).square().sum(1)
        stored = log_prob.detach().bfloat16()
        ratio = (log_prob - stored.float()).exp()
        return (ratio * torch.randn(16)).mean()

    found = train(model, loss_of)
    first = found.first()
    assert (first["kind"], first["severity"], first["precision"]) == (
        "amplified",
        "WARNING",
        "proven",
    )
    assert "stored = log_prob.detach().bfloat16()" in first["cure"]["lines"]


def test_a_bias_before_a_normalisation_is_still_nothing(train):
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(_step: int) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(inputs()).float().square().mean()

    assert train(model, loss_of, optimizer=optimizer).severe == []


def test_the_derivative_of_a_saturated_gate_is_not_flushed(train):
    model = nn.Linear(8, 8)
    with torch.no_grad():
        model.bias[:3] = 8.0

    def loss_of(_step: int) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            gate = torch.sigmoid(model(inputs()))
        return gate.float().square().mean()

    found = train(model, loss_of)
    assert found.severe == [] and not any(each["kind"] == "flushed" for each in found.all)


def test_indices_that_are_found_among_rounded_sums_are_others(train):
    model = nn.Embedding(4096, 4)
    weights = torch.rand(4096)

    def loss_of(_step: int) -> torch.Tensor:
        sums = weights.bfloat16().cumsum(0)
        rows = torch.searchsorted(sums.float(), torch.rand(64) * sums[-1].float())
        return model(rows.clamp(max=4095)).square().mean()

    found = train(model, loss_of)
    first = found.first()
    assert first["severity"] == "WARNING" and first["precision"] == "proven"
    assert "sums = weights.bfloat16().cumsum(0)" in [first["line"], *first["cure"]["lines"]]
    assert "index" in first["reach"]


def test_ids_that_go_through_a_matrix_of_floats_keep_their_error(train):
    model = nn.Embedding(64, 4)

    def loss_of(_step: int) -> torch.Tensor:
        ids = torch.randint(64, (32,)) + 2**25
        table = torch.stack([ids.float(), torch.randn(32)], dim=1)
        rows = table[:, 0].long() - 2**25
        return model(rows.clamp(0, 63)).square().mean()

    first = train(model, loss_of).first()
    assert (first["kind"], first["severity"], first["precision"]) == (
        "integers",
        "WARNING",
        "proven",
    )
    assert first["line"] == "table = torch.stack([ids.float(), torch.randn(32)], dim=1)"
    assert "index" in first["reach"]


def test_compensation_that_is_put_aside_before_the_copy_is_no_lost_change(train):
    model = nn.Linear(8, 8).bfloat16()
    lost = [torch.zeros_like(each) for each in model.parameters()]

    @torch.no_grad()
    def update() -> None:
        for at, each in enumerate(model.parameters()):
            want = lost[at] - (1e-4 * each.grad.float()).bfloat16()
            new = each + want
            lost[at] = want - (new - each)
            each.copy_(new)

    found = train(
        model, lambda _: model(inputs().bfloat16()).float().square().mean(), 8, update=update
    )
    assert found.severe == []


def test_a_sum_too_long_to_compute_again_is_proven_by_what_went_into_it(train):
    model = nn.Linear(8, 1)

    def loss_of(_step: int) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.bfloat16)
        for _ in range(1200):
            total += torch.ones(())
        return model(inputs()).square().mean() * total.float()

    first = train(model, loss_of, steps=1).first()
    assert first["line"] == "total += torch.ones(())"
    assert first["precision"] == "proven" and first["cure"]["lines"] == [first["line"]]


def test_of_what_an_optimizer_kept_it_is_not_known_what_broke_it(train):
    """Infinite since an earlier step, NaN in this one: neither proven nor excluded."""
    model = nn.Linear(8, 8)
    scale = torch.full((8,), math.inf)

    @torch.no_grad()
    def update() -> None:
        step = model.bias.grad * 0.0 * scale
        model.bias.sub_(step)

    first = train(model, lambda _: model(inputs()).square().mean(), 1, update=update).first()
    assert (first["kind"], first["line"]) == ("undefined", "step = model.bias.grad * 0.0 * scale")
    assert first["precision"] == "not_tested"


def test_memory_that_is_taken_from_a_living_tensor_is_not_read():
    """As sharded training does with gathered weights: the tensor stays, its storage is resized."""
    alive = torch.ones(4, 3)
    assert is_backed(alive) and is_backed(alive.t()) and is_backed(alive[1:, ::2])
    assert is_backed(torch.empty(0)) and is_backed(torch.ones(1).expand(5))
    gone = torch.ones(4, 3)
    part = gone[1:]
    gone.untyped_storage().resize_(0)
    assert not is_backed(gone) and not is_backed(part)
    held = Held(gone, version_of(gone), None, 0)
    assert not held.intact()


def test_a_weight_whose_memory_is_taken_after_a_lost_change_is_no_crash(train):
    model = nn.Linear(64, 64).bfloat16()
    gathered: list[torch.Tensor] = []

    @torch.no_grad()
    def update() -> None:
        whole = model.weight.detach().clone()
        whole.add_(1e-6)
        gathered.append(whole)
        whole.untyped_storage().resize_(0)

    train(
        model, lambda _: model(inputs(4, 64).bfloat16()).float().square().mean(), 6, update=update
    )
    assert len(gathered) == 6
