"""Two trainings in two threads: what one of them trains is not read while the other one runs, since
its gradients may be gone at that moment.
"""

from __future__ import annotations

import threading

import mpnanny.relations.dropped
import mpnanny.relations.stale
import torch
from mpnanny import MixedPrecisionNanny
from mpnanny.model.samples import gradient_numbers


def train(model, optimizers, nanny, steps):
    for step in range(steps):
        with nanny.step(step) as block:
            for optimizer in optimizers:
                loss = model(torch.randn(4, 8)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            block.log(loss=loss)


def made(db):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.01) for each in model]
    nanny = MixedPrecisionNanny(model, optimizer=optimizers[0], db=str(db), quiet=True)
    return model, optimizers, nanny


def test_gradients_are_read_in_the_thread_that_trains_them(tmp_path, monkeypatch):
    owners = {}
    wrong = []
    reads = []

    def read(optimizer):
        reads.append(optimizer)
        owner = owners.get(id(optimizer))
        if owner is not None and owner != threading.get_ident():
            wrong.append(optimizer)
        return gradient_numbers(optimizer)

    monkeypatch.setattr(mpnanny.relations.stale, "gradient_numbers", read)
    monkeypatch.setattr(mpnanny.relations.dropped, "gradient_numbers", read)
    turn = threading.Barrier(2)

    def run(db):
        model, optimizers, nanny = made(db)
        owners.update(dict.fromkeys(map(id, optimizers), threading.get_ident()))
        turn.wait()  # both are watched before either trains
        train(model, optimizers, nanny, 8)
        turn.wait()  # and until both have trained
        nanny.close()

    other = threading.Thread(target=run, args=(tmp_path / "b.db",))
    other.start()
    run(tmp_path / "a.db")
    other.join()
    assert reads and not wrong


def test_a_shadow_step_that_another_thread_goes_on_with_is_given_up(tmp_path):
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    nanny = MixedPrecisionNanny(
        model, optimizer=optimizer, db=str(tmp_path / "a.db"), quiet=True, shadow="every=1"
    )
    block = nanny.step(0)
    losses = []

    def begin():
        block.__enter__()
        losses.append(model(torch.randn(4, 8)).square().mean())

    other = threading.Thread(target=begin)
    other.start()
    other.join()
    losses[0].backward()
    optimizer.step()
    block.__exit__(None, None, None)
    train(model, [optimizer], nanny, 3)
    nanny.close()
    assert not [each for each in nanny.summary()["notes"] if "Error" in each]
