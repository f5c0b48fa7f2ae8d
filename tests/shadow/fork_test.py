"""A process that is forked while the parent's other threads hold the monitor's locks."""

from __future__ import annotations

import multiprocessing
import threading

import torch
from finds import inputs
from mpnanny import MixedPrecisionNanny
from mpnanny.hooks import taps
from torch import nn

LONG = 30  # seconds, after which the child counts as stuck


def _nothing() -> None:
    pass


def test_a_fork_while_another_thread_changes_the_listeners(db):
    """A loader's worker must begin, whatever a thread that it does not have was about to do."""
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    changing, done = threading.Event(), threading.Event()

    def change() -> None:
        with taps._changes:
            changing.set()
            done.wait()

    with MixedPrecisionNanny(model, db=db, shadow="every=1", quiet=True):
        model(inputs()).square().mean().backward()
        optimizer.step()
        thread = threading.Thread(target=change)
        thread.start()
        changing.wait()
        child = multiprocessing.get_context("fork").Process(target=_nothing)
        child.start()
        child.join(LONG)
        stuck = child.is_alive()
        child.kill()
        done.set()
        thread.join()
    assert not stuck
