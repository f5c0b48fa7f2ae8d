"""What trainings say in other ways than the usual: keywords, several optimizers, closures."""

from __future__ import annotations

import math

import pytest
import torch
from conftest import Mlp, batch, cross_entropy
from mpnanny import MixedPrecisionNanny, watch_model
from torch import nn


class Passing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class ByKeyword(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.passing, self.last = nn.Linear(8, 8), Passing(), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor | None = None) -> torch.Tensor:
        return self.last(self.passing(x=self.first(input=x)))


def test_inputs_given_by_keyword_are_seen(db, database):
    model = ByKeyword()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    nanny = watch_model(model, db=db, quiet=True)
    for step in range(3):
        x, y = batch()
        if step == 2:
            x[0, 0] = math.nan
        optimizer.zero_grad()
        cross_entropy(model(x=x), y).backward()
        optimizer.step()
    nanny.close()
    (nan,) = database().alerts(type="NAN", producer=1)
    assert (nan["phase"], nan["layer"], nan["step"]) == ("data", None, 2)


def _norm(parameters) -> float:
    return math.hypot(*(p.grad.double().norm().item() for p in parameters))


@pytest.mark.parametrize("unscale", [True, False])
@pytest.mark.parametrize("blocks", [True, False])
def test_each_of_two_optimizers_is_unscaled_by_itself(unscale, blocks, db, database):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))
    optimizers = [torch.optim.SGD(part.parameters(), lr=1e-3) for part in model]
    scaler = torch.amp.GradScaler("cpu")
    nanny = watch_model(model, db=db, quiet=True)
    norms = []
    for step in range(4):
        block = nanny.step(step) if blocks else None
        if block:
            block.__enter__()
        x, y = batch()
        for optimizer in optimizers:
            optimizer.zero_grad()
        scaler.scale(cross_entropy(model(x), y)).backward()
        norms.append(_norm(model.parameters()) / 65536)
        for optimizer in optimizers:
            if unscale:
                scaler.unscale_(optimizer)
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        if block:
            block.__exit__(None, None, None)
    nanny.close()
    rows = database().rows("SELECT grad_norm FROM step ORDER BY step")
    assert [row["grad_norm"] for row in rows] == pytest.approx(norms, rel=1e-5)
    assert database().alerts() == []


def test_two_optimizers_without_scaler_are_one_step(db, database):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))
    optimizers = [torch.optim.SGD(part.parameters(), lr=1e-3) for part in model]
    nanny = watch_model(model, db=db, quiet=True)
    norms = []
    for _ in range(4):
        x, y = batch()
        for optimizer in optimizers:
            optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        norms.append(_norm(model.parameters()))
        for optimizer in optimizers:
            optimizer.step()
    nanny.close()
    rows = database().rows("SELECT grad_norm FROM step ORDER BY step")
    assert len(rows) == 4  # in the first one the second optimizer is not known yet
    assert [row["grad_norm"] for row in rows[1:]] == pytest.approx(norms[1:], rel=1e-5)


def test_a_new_optimizer_takes_over(db, database):
    model = nn.Linear(8, 3)
    nanny = watch_model(model, db=db, quiet=True)
    for _stage in range(2):
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for _ in range(3):
            optimizer.zero_grad()
            cross_entropy(model(batch()[0]), batch()[1]).backward()
            optimizer.step()
    nanny.close()
    assert database().one("SELECT count(*) AS n FROM step")["n"] == 6


def test_an_evaluation_with_gradients_on_leaves_no_trace(db, database):
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    nanny = watch_model(model, db=db, quiet=True, trace_interval=1)
    for _ in range(3):
        x, y = batch()
        model.train()
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        model.eval()
        assert model(x * math.nan).isnan().all()
    model.train()
    model(x)  # a last look, without backward
    nanny.close()
    assert database().one("SELECT count(*) AS n FROM step")["n"] == 3
    assert database().alerts() == []


def test_a_training_in_evaluation_mode_is_watched(db, database):
    """As in fine-tuning with frozen normalisation: from its first backward pass on."""
    model = Mlp().eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    nanny = watch_model(model, db=db, quiet=True)
    for step in range(3):
        x, y = batch()
        optimizer.zero_grad()
        cross_entropy(model(x * math.nan if step == 2 else x), y).backward()
        optimizer.step()
    nanny.close()
    assert database().one("SELECT count(*) AS n FROM step")["n"] == 3
    assert database().alerts(type="NAN", phase="data")[0]["step"] == 2


def test_a_scaled_loss_that_is_divided_is_not_the_loss(db, database):
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu")
    nanny = watch_model(model, db=db, quiet=True)
    losses = []
    for _ in range(3):
        x, y = batch()
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        (scaler.scale(loss) / 4).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    nanny.close()
    rows = database().rows("SELECT loss FROM step ORDER BY step")
    assert [row["loss"] for row in rows] == losses


def test_a_closure_is_one_loss_a_step(db, database):
    model = nn.Linear(8, 3)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=5)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    nanny = MixedPrecisionNanny(model, db=db, quiet=True)
    x, y = batch()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        return loss

    losses, norms = [], []
    for step in range(3):
        with nanny.step(step):
            losses.append(optimizer.step(closure).item())
            norms.append(_norm(model.parameters()))
            schedule.step()
    nanny.close()
    rows = database().rows("SELECT loss, lr, grad_norm FROM step ORDER BY step")
    assert [row["loss"] for row in rows] == losses
    assert [row["lr"] for row in rows] == [0.1, 0.05, 0.025]
    assert [row["grad_norm"] for row in rows] == pytest.approx(norms, rel=1e-5)


def test_a_lazy_model_is_watched(db, database):
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.Linear(4, 3))
    nanny = watch_model(model, db=db, quiet=True)
    model(batch()[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    cross_entropy(model(batch()[0]), batch()[1]).backward()
    optimizer.step()
    nanny.close()
    assert database().one("SELECT grad_norm FROM step")["grad_norm"] > 0


def test_a_start_that_fails_leaves_nothing_behind(db, database, capfd):
    class Sealed(nn.Linear):
        def register_forward_hook(self, *args, **kwargs):
            raise RuntimeError("sealed")

    from torch.optim import optimizer as torch_optimizer

    optimizers = torch_optimizer._global_optimizer_pre_hooks
    before = len(optimizers)
    model = nn.Sequential(nn.Linear(8, 8), Sealed(8, 3))
    nanny = watch_model(model, db=db, quiet=True)
    assert "not watching: sealed" in capfd.readouterr().err
    assert nanny.run == "" and len(optimizers) == before
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    with nanny.step(0) as record:
        record.log(loss=1.0)
    run = database().one("SELECT end_reason, notes FROM run")
    assert run["end_reason"] == "exception" and "sealed" in run["notes"]


class Descent(torch.optim.Optimizer):
    """torch's own steps break the graph by themselves, this one does not."""

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.sub_(parameter.grad)


def test_a_compiled_optimizer_step_is_not_broken(db):
    model = nn.Linear(8, 3)
    optimizer = Descent(model.parameters(), {})
    nanny = watch_model(model, db=db, quiet=True)
    step = torch.compile(lambda: optimizer.step(), backend="eager", fullgraph=True)
    before = model.weight.clone()
    model(batch()[0]).sum().backward()
    step()
    nanny.close()
    assert not torch.equal(before, model.weight)


def test_updates_written_by_hand_are_steps(db, database):
    model = nn.Linear(8, 3)
    nanny = watch_model(model, db=db, quiet=True)
    for _ in range(6):
        loss = model(torch.ones(2, 8)).square().mean()
        for parameter, gradient in zip(
            model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
        ):
            parameter.data -= 1e-3 * gradient
    nanny.close()
    steps = database().rows("SELECT * FROM step")
    assert len(steps) == 6
    # That there is no optimizer shows after the first step.
    assert [row["grad_norm"] is None for row in steps] == [True] + [False] * 5


def test_forward_passes_without_an_update_do_not_gather_for_ever(db, database):
    model = nn.Linear(8, 3)
    nanny = watch_model(model, db=db, quiet=True)
    for _ in range(600):
        model(torch.ones(2, 8))
    nanny.close()
    assert database().one("SELECT count(*) AS n FROM step")["n"] == 2
    assert "without update" in database().one("SELECT notes FROM run")["notes"]


def test_scores_that_a_penalty_derives_are_no_loss(db, database):
    """As WGAN-GP with a scaler: the scores are scaled for the slope at the inputs."""
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    nanny = watch_model(critic, db=db, quiet=True)
    losses = []
    for _ in range(4):
        x = torch.randn(4, 8, requires_grad=True)
        (slope,) = torch.autograd.grad(scaler.scale(100 + critic(x).sum()), x, create_graph=True)
        penalty = (slope / scaler.get_scale()).norm(dim=1).sub(1).square().mean()
        loss = critic(torch.ones(4, 8)).mean() + penalty
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    nanny.close()
    rows = database().rows("SELECT loss FROM step ORDER BY step")
    assert [row["loss"] for row in rows] == pytest.approx(losses, rel=1e-5)
    assert database().rows("SELECT * FROM event WHERE detail LIKE '%backward passes%'") == []
