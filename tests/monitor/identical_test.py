"""A watched training is the training that was not watched, bit for bit."""

from __future__ import annotations

import pytest
import torch
from trainings import MARKED, plain, watched


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


@pytest.mark.parametrize("name", MARKED)
def test_losses_weights_buffers_and_optimizer_state_are_the_same_bits(name):
    mine, theirs = watched(name), plain(name)
    assert [loss.hex() for loss in mine.losses] == [loss.hex() for loss in theirs.losses]
    assert mine.tensors.keys() == theirs.tensors.keys() and mine.tensors
    differ = [
        key
        for key, tensor in mine.tensors.items()
        if tensor.dtype != theirs.tensors[key].dtype
        or not torch.equal(bits(tensor), bits(theirs.tensors[key]))
    ]
    assert differ == []
    # No random number was drawn on the way.
    assert torch.equal(mine.random, theirs.random)
